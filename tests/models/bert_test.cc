// BERT against transformers (golden/bert, made by make.py there); folders that break a rule are in bert_folder_test.cc.
#include "qkv/models/bert.h"

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

const std::string kTiny = QKV_TEST_DATA "/golden/bert/tiny";

std::vector<std::int32_t> integers(const TensorView& view) {
  return {view.data<std::int32_t>(), view.data<std::int32_t>() + view.element_count()};
}

const std::map<std::string, Tensor>& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/bert/tiny.safetensors");
  return file.tensors;
}

TokenBatch golden_tokens() {
  return {integers(golden().at("ids")), integers(golden().at("types")), golden().at("offsets")};
}

// A copy of the tiny model's folder with something changed.
class Folder {
 public:
  using Tensors = std::map<std::string, Tensor>;

  Folder() : config(test::slurp(kTiny + "/config.json")), content(read_safetensors(kTiny + "/model.safetensors")) {}

  Bert load() const {
    folder_.put("config.json", config);
    write_safetensors(folder_ / "model.safetensors", content);
    return Bert::load(folder_ / "");
  }
  std::string config;
  SafeTensors content;

 private:
  test::TemporaryFolder folder_;
};

TEST(Bert, AgreesWithTransformers) {
  const Tensor out = Bert::load(kTiny).forward(golden_tokens());
  const TensorView exact = golden().at("out_f64");
  // At most twice as far as torch's own float32, above a floor of a few roundings.
  EXPECT_LE(testing::difference(out, exact),
            2 * testing::difference(golden().at("out"), exact) + 5e-7 * testing::largest(exact));
}

TEST(Bert, ASequenceIsAsAloneOnAnyNumberOfThreads) {
  const Bert model = Bert::load(kTiny);
  const TokenBatch all = golden_tokens();
  const Tensor out = model.forward(all, {.threads = 1});
  EXPECT_TRUE(testing::same_bits(model.forward(all, {.threads = 4}), out));
  const auto* offsets = all.offsets.data<std::int32_t>();
  for (std::int64_t b = 0; b < all.batch(); ++b) {
    const std::int32_t begin = offsets[b], end = offsets[b + 1];
    const TokenBatch one{{all.ids.begin() + begin, all.ids.begin() + end},
                         {all.types.begin() + begin, all.types.begin() + end},
                         offsets_of(std::vector<std::int64_t>{end - begin})};
    EXPECT_TRUE(testing::same_bits(model.forward(one), out.view().slice(0, begin, end)));
  }
}

TEST(Bert, NamesMayLackThePrefix) {
  Folder folder;
  std::map<std::string, Tensor> renamed;
  for (auto& [name, tensor] : folder.content.tensors) {
    renamed[name.starts_with("bert.") ? name.substr(5) : name] = std::move(tensor);
  }
  renamed["pooler.dense.weight"] = Tensor::zeros({12, 12});
  renamed["embeddings.position_ids"] = Tensor::zeros({1, 16}, Dtype::i64);
  folder.content.tensors = std::move(renamed);
  EXPECT_TRUE(testing::same_bits(folder.load().forward(golden_tokens()), Bert::load(kTiny).forward(golden_tokens())));
}

struct Names : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    names.push_back(std::string(name) + to_string(value.shape()));
  }
  std::vector<std::string> names;
};

TEST(Bert, ObserverSeesEveryLayer) {
  Names seen;
  const Bert model = Bert::load(kTiny);
  EXPECT_TRUE(testing::same_bits(model.forward(golden_tokens(), {}, &seen), model.forward(golden_tokens())));
  EXPECT_EQ(seen.names.size(), 4u + 2 * 12);
  EXPECT_EQ(seen.names[3], "embeddings[31, 12]");
  EXPECT_EQ(seen.names[5], "layers.0.query[31, 3, 4]");
  EXPECT_EQ(seen.names[9], "layers.0.weights[31, 3, 16]");
  EXPECT_EQ(seen.names[27], "layers.1.feed_forward_norm[31, 12]");
}

TEST(Bert, RefusesTokensThatDoNotFit) {
  const Bert model = Bert::load(kTiny);
  const auto refusal = [&](const TokenBatch& tokens) {
    return test::message_of<std::invalid_argument>([&] { model.forward(tokens); });
  };
  const auto offsets = [](std::int64_t length) { return offsets_of(std::vector<std::int64_t>{length}); };
  Tensor offsets_from_minus_one = offsets(2);
  offsets_from_minus_one.data<std::int32_t>()[0] = -1;
  EXPECT_EQ(refusal({{1, 30}, {0, 0}, offsets(2)}), "embedding: id 30 is not in a table of 30 rows");
  EXPECT_EQ(refusal({{1, -1}, {0, 0}, offsets(2)}), "embedding: id -1 is not in a table of 30 rows");
  EXPECT_EQ(refusal({{1, 2}, {0, 2}, offsets(2)}), "embedding: id 2 is not in a table of 2 rows");
  EXPECT_EQ(refusal({std::vector<std::int32_t>(17), std::vector<std::int32_t>(17), offsets(17)}),
            "bert: sequence 0 has 17 tokens; the model has positions for 0 to 16");
  EXPECT_EQ(refusal({{1, 2}, {0}, offsets(2)}),
            "bert: 2 ids need as many types (got 1) and i32 offsets [batch + 1] from 0 to their number");
  EXPECT_EQ(refusal({{1, 2}, {0, 0}, offsets_from_minus_one}),
            "bert: 2 ids need as many types (got 2) and i32 offsets [batch + 1] from 0 to their number");
  EXPECT_EQ(model.forward({{}, {}, offsets(0)}).shape(), (Dims{0, 12}));
}

}  // namespace
}  // namespace qkv
