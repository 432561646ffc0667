// BERT against transformers (golden/bert, made by make.py there), and folders that break a rule.
#include "qkv/bert.h"

#include <functional>

#include "io/files_for_test.h"
#include "kernels/attention_testing.h"
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
  void replace(const std::string& from, const std::string& to) {
    const std::size_t at = config.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
  }
  // What the refusal says behind the folder's name.
  std::string refusal() const {
    const std::string message = test::message_of<FormatError>([&] { load(); });
    return message.substr(message.rfind('/') + 1);
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
  EXPECT_EQ(seen.names.size(), 1u + 2 * 11);
  EXPECT_EQ(seen.names[0], "embeddings[31, 12]");
  EXPECT_EQ(seen.names[1], "layers.0.query[31, 3, 4]");
  EXPECT_EQ(seen.names[5], "layers.0.weights[31, 3, 16]");
  EXPECT_EQ(seen.names[22], "layers.1.feed_forward_norm[31, 12]");
}

TEST(Bert, RefusesTokensThatDoNotFit) {
  const Bert model = Bert::load(kTiny);
  const auto refusal = [&](const TokenBatch& tokens) {
    return test::message_of<std::invalid_argument>([&] { model.forward(tokens); });
  };
  const auto offsets = [](std::int64_t length) { return offsets_of(std::vector<std::int64_t>{length}); };
  EXPECT_EQ(refusal({{1, 30}, {0, 0}, offsets(2)}), "embedding: number 30 is not in a table of 30 rows");
  EXPECT_EQ(refusal({{1, -1}, {0, 0}, offsets(2)}), "embedding: number -1 is not in a table of 30 rows");
  EXPECT_EQ(refusal({{1, 2}, {0, 2}, offsets(2)}), "embedding: number 2 is not in a table of 2 rows");
  EXPECT_EQ(refusal({std::vector<std::int32_t>(17), std::vector<std::int32_t>(17), offsets(17)}),
            "bert: sequence 0 has 17 tokens; the model has positions for 0 to 16");
  EXPECT_EQ(refusal({{1, 2}, {0}, offsets(2)}),
            "bert: 2 ids need as many types (got 1) and i32 offsets [batch + 1] that end with their number");
  EXPECT_EQ(model.forward({{}, {}, offsets(0)}).shape(), (Dims{0, 12}));
}

TEST(Bert, RefusesConfigs) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    Folder folder;
    folder.replace(from, to);
    return folder.refusal();
  };
  EXPECT_EQ(refusal("\"num_attention_heads\": 3", "\"num_attention_heads\": 5"),
            "config.json: num_attention_heads is 5, must divide hidden_size, 12");
  EXPECT_EQ(refusal("\"hidden_size\": 12", "\"hidden_size\": 2147483648"),
            "config.json: hidden_size is 2147483648, must be 1 to 1048576");
  EXPECT_EQ(refusal("\"vocab_size\": 30", "\"vocab_size\": 4294967296"),
            "config.json: vocab_size is 4294967296, must be 1 to 1048576");
  EXPECT_EQ(refusal("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0"),
            "config.json: num_hidden_layers is 0, must be 1 to 1024");
  EXPECT_EQ(refusal("\"intermediate_size\": 20,", ""), "config.json: intermediate_size is missing");
  EXPECT_EQ(refusal("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"silu\""),
            "config.json: hidden_act must be \"gelu\" or \"relu\"");
  EXPECT_EQ(refusal("\"model_type\": \"bert\"", "\"model_type\": \"gpt2\""),
            "config.json: model_type must be \"bert\" for this model");
  EXPECT_EQ(refusal("\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": -1"),
            "config.json: layer_norm_eps must be 0 or more, below 1");
  EXPECT_EQ(refusal("\"is_decoder\": false", "\"is_decoder\": true"),
            "config.json: is_decoder must be false: this is an encoder");
  // The largest sizes that a config may name do not fit the tensors, which is found before anything is allocated.
  EXPECT_EQ(
      refusal("\"vocab_size\": 30", "\"vocab_size\": 1048576"),
      "model.safetensors: tensor \"bert.embeddings.word_embeddings.weight\" is [30, 12]; it must be [1048576, 12]");
}

TEST(Bert, RefusesTensors) {
  const auto refusal = [](const std::function<void(Folder::Tensors&)>& change) {
    Folder folder;
    change(folder.content.tensors);
    return folder.refusal();
  };
  const std::string bias = "bert.encoder.layer.1.output.dense.bias";
  EXPECT_EQ(refusal([&](auto& tensors) { tensors.erase(bias); }),
            "model.safetensors: tensor \"" + bias + "\" [12] is missing");
  EXPECT_EQ(refusal([&](auto& tensors) { tensors[bias] = Tensor::zeros({13}); }),
            "model.safetensors: tensor \"" + bias + "\" is [13]; it must be [12]");
  EXPECT_EQ(refusal([&](auto& tensors) { tensors[bias] = Tensor::zeros({12}, Dtype::i32); }),
            "model.safetensors: tensor \"" + bias + "\" is i32; it must be a floating type");
  EXPECT_EQ(refusal([&](auto& tensors) { tensors["bert.encoder.layer.2.output.dense.bias"] = Tensor::zeros({12}); }),
            "model.safetensors: tensor \"bert.encoder.layer.2.output.dense.bias\" belongs to no part of this model");
}

}  // namespace
}  // namespace qkv
