// What the tests of models share: golden folders and what is refused of their changed copies, batches, and gradients as
// slopes of the loss.
#pragma once

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "io/json_edits_for_test.h"
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

// Each of these edits of the config (json_edits()) makes Model refuse the folder, with its message.
template <class Model>
void expect_configs_refused(const std::string& name, const std::string& edits) {
  const GoldenCopy folder(name);
  expect_edits_refused(folder.config, edits, "config.json: ", [&](const std::string& config) {
    folder.put("config.json", config);
    return refusal_of<Model>(folder);
  });
}

// What an observer received: names and shapes in turn, and the last value of each name.
struct SeenByName : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    names.push_back(std::string(name) + to_string(value.shape()));
    all[std::string(name)] = convert(value, Dtype::f64);
  }

  std::vector<std::string> names{};
  std::map<std::string, Tensor> all{};
};

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
