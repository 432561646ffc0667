// The config.json of a model, key by key, for every kind of model. A key that transformers' class of the kind reads and
// ours does not may change what is computed: it must have its default. Keys that the class does not know are ignored,
// and so are those of training and of its heads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json/json_document.h"
#include "qkv/activation.h"
#include "qkv/dtype.h"

namespace qkv::inline models {

struct FixedKey {
  const char* key;
  const char* value;  // the only one, as JSON
};

// A JSON file of a model's folder; of a GGUF file the one that `qkv convert` makes of it.
io::JsonDocument folder_document(const std::string& folder, const std::string& name);

// Every function throws FormatError, naming the file, the key and what would be right.
class ModelConfig {
 public:
  explicit ModelConfig(const std::string& folder);

  io::JsonValue root() const { return document_.root(); }
  io::JsonValue operator[](const std::string& key) const { return document_.root()[key]; }
  std::optional<io::JsonValue> find(const std::string& key) const { return document_.root().find(key); }

  std::int64_t size(const std::string& key) const;
  std::int64_t layers(const std::string& key) const;
  // A number that divides that of `dim_key`.
  std::int64_t heads(const std::string& key, const std::string& dim_key) const;
  Activation activation(const std::string& key) const;
  double epsilon(const std::string& key) const;
  std::int32_t token(const std::string& key, std::int64_t vocab) const;
  bool flag(const std::string& key, bool otherwise) const;
  // The names under "0", "1", ... of id2label; two without a name of their own if there is none, as in transformers.
  std::vector<std::string> labels() const;

  // Each of the keys, and of those that every class has, must be missing, null or this.
  void expect(std::span<const FixedKey> keys) const;

 private:
  void expect_one(const FixedKey& fixed) const;

  io::JsonDocument document_;
};

// The longest edge of a picture that a model is given, in pixels: its square is kMostPixels.
inline constexpr std::int64_t kLongestProcessedEdge = 8000;

// The name of the weights' type in a config.json.
const char* transformers_dtype(Dtype dtype);

// "a", "b" and "c", where the last word is "and".
std::string quoted_list(const std::vector<std::string>& names, std::string_view word);

// The first name of an activation is the one that is written.
const std::vector<std::pair<std::string, Activation>>& activation_names();
const std::string& name_of(Activation activation);

}  // namespace qkv::inline models
