// Looks for a model in the local cache of the Hugging Face hub.
#include "qkv/models/find_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "io/files/text.h"
#include "models/gguf_folder.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && text.front() != '.' && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.find(c) != std::string_view::npos;
  });
}

std::string hub_cache() {
  constexpr struct {
    const char* variable;
    const char* below;
  } kPlaces[] = {{"HF_HUB_CACHE", ""},
                 {"HF_HOME", "/hub"},
                 {"XDG_CACHE_HOME", "/huggingface/hub"},
                 {"HOME", "/.cache/huggingface/hub"}};
  for (const auto& place : kPlaces) {
    const char* folder = std::getenv(place.variable);
    if (folder != nullptr && *folder != '\0') return std::string(folder) + place.below;
  }
  return "~/.cache/huggingface/hub";
}

// `hint` ends the line.
void refuse_file(const std::string& name, std::string_view hint) {
  std::error_code error;
  if (fs::is_regular_file(name, error)) {
    throw FormatError(fmt::format("{}: is a file; a model is a folder{}", name, hint));
  }
}

}  // namespace

std::string find_language_model(const std::string& name) {
  if (is_gguf(name)) return name;
  refuse_file(name, ", or a file whose name ends in .gguf");
  return find_model(name);
}

std::string find_model(const std::string& name) {
  constexpr std::string_view kPunctuation = "-_.";
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string organization = name.substr(0, slash), model = name.substr(std::min(slash + 1, name.size()));
  refuse_file(name, name.ends_with(".gguf") ? " (qkv convert FILE.gguf FOLDER makes one)" : "");
  std::error_code error;
  if (fs::exists(name, error) || !is_word(organization, kPunctuation) || !is_word(model, kPunctuation)) return name;
  const std::string entry = fmt::format("{}/models--{}--{}", hub_cache(), organization, model);
  const std::string reference = entry + "/refs/main";
  if (!fs::exists(reference, error)) {
    throw IoError(
        fmt::format("no such model: {} is neither a folder nor in the Hugging Face cache ({})", name, reference),
        ENOENT);
  }
  constexpr std::size_t kLongestCommit = 128;
  std::string commit = read_file(reference, kLongestCommit);
  while (commit.ends_with('\n')) commit.pop_back();
  if (!is_word(commit, "")) throw FormatError(fmt::format("{}: is {}, not a commit", reference, io::quote(commit)));
  const std::string snapshot = entry + "/snapshots/" + commit;
  if (!fs::exists(snapshot, error)) {
    throw IoError(
        fmt::format("no such model: {} is not a folder, and its entry in the Hugging Face cache is incomplete ({})",
                    name, snapshot),
        ENOENT);
  }
  return snapshot;
}

}  // namespace qkv
