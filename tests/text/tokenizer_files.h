// Files that the tokenizer tests share.
#pragma once

#include "io/files_for_test.h"

namespace qkv {

using test::slurp;

inline std::string golden(const std::string& name) { return slurp(QKV_TEST_DATA "/golden/tokenizer/" + name); }

inline std::vector<std::string> golden_texts(const std::string& name) { return nlohmann::json::parse(golden(name)); }

// Without the last, empty line; a line may be empty.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

// Where models/get-minilm puts the model; QKV_MINILM names another folder.
inline std::string minilm_folder() {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (!variable("QKV_MINILM").empty()) return variable("QKV_MINILM");
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/qkv/all-MiniLM-L6-v2";
}

}  // namespace qkv
