// What the tests of models share: golden folders and what is refused of their changed copies, batches, and gradients as
// slopes of the loss.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "io/json_edits_for_test.h"
#include "qkv/files.h"
#include "qkv/layers/sequences.h"
#include "qkv/models/encoder_decoder.h"

namespace qkv::test {

inline std::string golden_path(const std::string& name) { return QKV_TEST_DATA "/golden/" + name; }

inline std::map<std::string, Tensor> golden_tensors(const std::string& name) {
  return read_safetensors(golden_path(name)).tensors;
}

inline std::vector<std::int32_t> integers(const TensorView& view) {
  return {view.data<std::int32_t>(), view.data<std::int32_t>() + view.element_count()};
}

inline Tensor offsets_for(std::initializer_list<std::int64_t> lengths) {
  return offsets_of(std::span(lengths.begin(), lengths.size()));
}

// At most twice as far from the exact values as torch's own float32, above a floor of a few roundings.
inline void expect_as_close(const TensorView& given, const TensorView& torch, const TensorView& exact, double floor) {
  ASSERT_EQ(given.shape(), exact.shape());
  EXPECT_LE(testing::difference(given, exact), 2 * testing::difference(torch, exact) + floor * testing::largest(exact));
}

// A copy of a golden folder, to be changed.
struct GoldenCopy : TemporaryFolder {
  explicit GoldenCopy(const std::string& name)
      : config(nlohmann::json::parse(slurp(golden_path(name) + "/config.json"))) {
    std::filesystem::copy(golden_path(name), *this / "");
  }
  void put_config() const { put("config.json", config.dump()); }

  nlohmann::json config;
};

// What Model::load and Model::check say of a folder that they refuse, behind the folder's name.
template <class Model>
std::string refusal_of(const TemporaryFolder& folder) {
  const std::string message = message_of<FormatError>([&] { Model::load(folder / ""); });
  EXPECT_EQ(message_of<FormatError>([&] { Model::check(folder / ""); }), message);
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(message.rfind("//") + 2);
}

// Each of these edits of the config makes Model refuse the folder, with its message.
template <class Model>
void expect_configs_refused(const std::string& name, const std::vector<JsonEdit>& edits) {
  const GoldenCopy folder(name);
  for (const JsonEdit& edit : edits) {
    folder.put("config.json", edited(folder.config, edit.place, edit.value));
    const std::string file = edit.message.starts_with("model.safetensors") ? "" : "config.json: ";
    EXPECT_EQ(refusal_of<Model>(folder), file + edit.message) << name << " " << edit.place;
  }
}

inline PairBatch pairs_of(const std::vector<TokenPair>& pairs) {
  PairBatch batch;
  std::vector<std::int64_t> sources, targets;
  for (const TokenPair& pair : pairs) {
    batch.source.insert(batch.source.end(), pair.source.begin(), pair.source.end());
    batch.target.insert(batch.target.end(), pair.target.begin(), pair.target.end());
    sources.push_back(std::ssize(pair.source));
    targets.push_back(std::ssize(pair.target));
  }
  batch.source_offsets = offsets_of(sources);
  batch.target_offsets = offsets_of(targets);
  return batch;
}

}  // namespace qkv::test
