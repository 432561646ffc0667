#include "pipelines/sentence_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "io/json_document.h"
#include "layers/check_size.h"
#include "qkv/files.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = 1 << 20;

// A file that is there in any way must be read: one that cannot be is no missing one.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

// The folder of a module below that of the model. A zero byte would end the name early for the system.
fs::path module_folder(const fs::path& folder, const io::JsonValue& path) {
  const fs::path below = fs::path(path.string()).lexically_normal();
  if (path.string().find('\0') != std::string::npos) path.refuse("must not hold a zero byte");
  if (below.is_absolute() || (!below.empty() && *below.begin() == "..")) path.refuse("must not leave the folder");
  return folder / below;
}

void check_pooling(const std::string& path, std::int64_t dim) {
  const io::JsonDocument document(read_file(path, kMaxConfigBytes), path);
  const io::JsonValue root = document.root();
  root["word_embedding_dimension"].integer(dim, dim);
  root.for_each_member([](const std::string& key, const io::JsonValue& value) {
    if (!key.starts_with("pooling_mode_")) return;
    if (value.boolean() != (key == "pooling_mode_mean_tokens")) value.refuse("must be that of the mean over tokens");
  });
  root["pooling_mode_mean_tokens"].boolean();
}

std::string last_part(const std::string& type) { return type.substr(type.rfind('.') + 1); }

// Transformer, Pooling, and perhaps Normalize: returns whether it is there.
bool read_modules(const fs::path& folder, const std::string& path, std::int64_t dim) {
  const io::JsonDocument document(read_file(path, kMaxConfigBytes), path);
  const std::vector<io::JsonValue> modules = document.root().elements();
  const char* const kKnown[] = {"Transformer", "Pooling", "Normalize"};
  if (modules.size() != 2 && modules.size() != 3) document.root().refuse("must list Transformer, Pooling, Normalize");
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const io::JsonValue type = modules[i]["type"];
    if (last_part(type.string()) != kKnown[i]) type.refuse(fmt::format("must be {} in this place", kKnown[i]));
    const fs::path place = module_folder(folder, modules[i]["path"]);
    if (i == 0 && place.lexically_normal() != (folder / "").lexically_normal()) {
      modules[i]["path"].refuse("must be empty: the model lies in the folder itself");
    }
    if (i == 1) check_pooling((place / "config.json").string(), dim);
  }
  return modules.size() == 3;
}

}  // namespace

SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t dim) {
  SentenceFolder result;
  const fs::path base(folder);
  if (const fs::path modules = base / "modules.json"; is_there(modules)) {
    result.normalize = read_modules(base, modules.string(), dim);
  }
  if (const fs::path limits = base / "sentence_bert_config.json"; is_there(limits)) {
    const io::JsonDocument document(read_file(limits.string(), kMaxConfigBytes), limits.string());
    if (const auto length = document.root().find("max_seq_length")) {
      result.max_length = length->integer(1, kMaxLayerSize);
    }
  }
  return result;
}

}  // namespace qkv
