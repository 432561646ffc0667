// Encoders of other kinds than BERT against transformers (golden/encoders, made by make.py there).
#include <nlohmann/json.hpp>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/bert.h"

namespace qkv {
namespace {

using nlohmann::json;

std::string golden_path(const std::string& name) { return QKV_TEST_DATA "/golden/encoders/" + name; }

TokenBatch batch_of(const std::map<std::string, Tensor>& golden) {
  const Tensor& ids = golden.at("ids");
  const auto count = static_cast<std::size_t>(ids.element_count());
  return {{ids.data<std::int32_t>(), ids.data<std::int32_t>() + count},
          std::vector<std::int32_t>(count),
          golden.at("offsets")};
}

TokenBatch one_text(std::vector<std::int32_t> ids, std::int32_t type = 0) {
  const std::size_t count = ids.size();
  return {std::move(ids), std::vector<std::int32_t>(count, type),
          offsets_of(std::vector<std::int64_t>{static_cast<std::int64_t>(count)})};
}

// The folder of a kind with its config.json changed.
struct Changed : test::TemporaryFolder {
  explicit Changed(const std::string& kind) : config(json::parse(test::slurp(golden_path(kind + "/config.json")))) {
    for (const auto& entry : std::filesystem::directory_iterator(golden_path(kind))) {
      std::filesystem::copy_file(entry.path(), *this / entry.path().filename().string());
    }
  }
  Bert load() const {
    put("config.json", config.dump());
    return Bert::load(*this / "");
  }
  std::string refusal() const {
    const std::string message = test::message_of<FormatError>([&] { load(); });
    return message.substr(message.rfind("//") + 2);
  }

  json config;
};

QKV_ON_EACH_TARGET(EncoderKinds);

TEST_P(EncoderKinds, AgreeWithTransformers) {
  for (const std::string kind : {"roberta", "distilbert", "mpnet", "xlm_roberta"}) {
    const auto golden = read_safetensors(golden_path(kind + ".safetensors")).tensors;
    const Tensor out = Bert::load(golden_path(kind)).forward(batch_of(golden));
    const TensorView exact = golden.at("out_f64");
    // At most twice as far as torch's own float32, above a floor of a few roundings.
    EXPECT_LE(testing::difference(out, exact),
              2 * testing::difference(golden.at("out"), exact) + 5e-7 * testing::largest(exact))
        << kind;
  }
}

TEST(EncoderKind, XlmRobertaIsRoberta) {
  Changed xlm("roberta");
  xlm.config["model_type"] = "xlm-roberta";
  const TokenBatch text = one_text({0, 7, 9, 2});
  EXPECT_TRUE(testing::same_bits(xlm.load().forward(text), Bert::load(golden_path("roberta")).forward(text)));
}

TEST(EncoderKind, RobertaHasPositionsAboveItsPadding) {
  Changed changed("roberta");
  const Bert model = changed.load();
  EXPECT_EQ(model.config().positions, 32);  // 34 rows
  EXPECT_EQ(model.forward(one_text(std::vector<std::int32_t>(32, 5))).size(0), 32);
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { model.forward(one_text(std::vector<std::int32_t>(33, 5))); }),
            "bert: sequence 0 has 33 tokens; the model has positions for 0 to 32");
  changed.config["pad_token_id"] = 33;
  EXPECT_EQ(changed.refusal(),
            "config.json: max_position_embeddings is 34, must be above pad_token_id + 1, 34: positions begin there");
  changed.config["pad_token_id"] = 290;
  EXPECT_EQ(changed.refusal(), "config.json: pad_token_id is 290, must be 0 to 289");
  changed.config.erase("pad_token_id");
  EXPECT_EQ(changed.refusal(), "config.json: pad_token_id is missing");
  changed.config["pad_token_id"] = 1;
  changed.config["is_decoder"] = true;
  EXPECT_EQ(changed.refusal(), "config.json: is_decoder must be false for this model");
}

// The id of its padding is 1 whatever config.json says, as in transformers.
TEST(EncoderKind, MpnetHasPositionsAboveOne) {
  Changed changed("mpnet");
  const Bert model = changed.load();
  EXPECT_EQ(model.config().positions, 200);  // 202 rows
  const TokenBatch text = one_text({0, 7, 1, 9, 2});
  changed.config["pad_token_id"] = 0;
  changed.config.erase("relative_attention_num_buckets");  // transformers' default
  EXPECT_TRUE(testing::same_bits(changed.load().forward(text), model.forward(text)));
  changed.config["max_position_embeddings"] = 2;
  EXPECT_EQ(changed.refusal(),
            "config.json: max_position_embeddings is 2, must be above the padding's id + 1, 2: positions begin there");
  changed.config["max_position_embeddings"] = 202;
  changed.config["num_attention_heads"] = 6;
  EXPECT_EQ(
      changed.refusal(),
      "model.safetensors: tensor \"mpnet.encoder.relative_attention_bias.weight\" is [32, 3]; it must be [32, 6]");
}

TEST(EncoderKind, DistilBertHasNoTypes) {
  const Bert model = Bert::load(golden_path("distilbert"));
  EXPECT_TRUE(testing::same_bits(model.forward(one_text({3, 4, 5})), model.forward(one_text({3, 4, 5}, 7))));
  Changed changed("distilbert");
  changed.config["n_heads"] = 5;
  EXPECT_EQ(changed.refusal(), "config.json: n_heads is 5, must divide dim, 12");
  changed.config["n_heads"] = 3;
  changed.config["model_type"] = "bert";
  EXPECT_EQ(changed.refusal(), "config.json: hidden_size is missing");
}

}  // namespace
}  // namespace qkv
