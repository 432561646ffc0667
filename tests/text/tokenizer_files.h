// Files that the tokenizer tests share.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/files_for_test.h"

namespace qkv {

using test::slurp;

inline std::string golden(const std::string& name) { return slurp(QKV_TEST_DATA "/golden/tokenizer/" + name); }

inline std::vector<std::string> golden_texts(const std::string& name) { return nlohmann::json::parse(golden(name)); }

// Without the last, empty line; a line may be empty.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Where models/get-minilm puts the model; QKV_MINILM names another folder.
inline std::string minilm_folder() {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (!variable("QKV_MINILM").empty()) return variable("QKV_MINILM");
  const std::string cache =
      variable("XDG_CACHE_HOME").empty() ? variable("HOME") + "/.cache" : variable("XDG_CACHE_HOME");
  return cache + "/qkv/all-MiniLM-L6-v2";
}

}  // namespace qkv
