// BERT and the other encoders against transformers (golden/bert and golden/encoders, made by make.py there), and
// folders that break a rule: each is refused with one line that names the file, the field or tensor, and the rule.
#include "models/folder_tensors.h"
#include "models/models_for_test.h"
#include "qkv/models/text_encoder.h"

namespace qkv::test {
namespace {

using nlohmann::json;
using testing::same_bits;

const std::string kTiny = golden_path("bert/tiny");

TokenBatch batch_of(const std::map<std::string, Tensor>& golden) {
  const std::vector<std::int32_t> ids = integers(golden.at("ids")), none(ids.size());
  return {ids, golden.contains("types") ? integers(golden.at("types")) : none, golden.at("offsets")};
}

TokenBatch golden_tokens() { return batch_of(golden_tensors("bert/tiny.safetensors")); }

TokenBatch one_text(const std::vector<std::int32_t>& ids, std::int32_t type = 0) {
  return {ids, std::vector<std::int32_t>(ids.size(), type), offsets_for({std::ssize(ids)})};
}

QKV_ON_EACH_TARGET(EncoderKinds);

TEST_P(EncoderKinds, AgreeWithTransformers) {
  for (const std::string name :
       {"bert/tiny", "encoders/roberta", "encoders/distilbert", "encoders/mpnet", "encoders/xlm_roberta"}) {
    SCOPED_TRACE(name);
    const auto golden = golden_tensors(name + ".safetensors");
    const Tensor out = TextEncoder::load(golden_path(name)).forward(batch_of(golden));
    expect_as_close(out, golden.at("out"), golden.at("out_f64"), 5e-7);
  }
}

TEST(TextEncoder, NamesMayLackThePrefix) {
  const GoldenCopy folder("bert/tiny");
  SafeTensors renamed;
  for (const auto& [name, tensor] : golden_tensors("bert/tiny/model.safetensors")) {
    renamed.tensors[name.starts_with("bert.") ? name.substr(5) : name] = tensor;
  }
  renamed.tensors["pooler.dense.weight"] = Tensor::zeros({12, 12});
  renamed.tensors["embeddings.position_ids"] = Tensor::zeros({1, 16}, Dtype::i64);
  write_safetensors(folder / "model.safetensors", renamed);
  EXPECT_TRUE(same_bits(TextEncoder::load(folder / "").forward(golden_tokens()),
                        TextEncoder::load(kTiny).forward(golden_tokens())));
}

TEST(TextEncoder, ObserverSeesEveryLayer) {
  SeenByName seen;
  const TextEncoder model = TextEncoder::load(kTiny);
  EXPECT_TRUE(same_bits(model.forward(golden_tokens(), {}, &seen), model.forward(golden_tokens())));
  ASSERT_EQ(seen.names.size(), 4u + 2 * 12);
  EXPECT_EQ(seen.names[3], "embeddings[31, 12]");
  EXPECT_EQ(seen.names[5], "layers.0.query[31, 3, 4]");
  EXPECT_EQ(seen.names[9], "layers.0.weights[31, 3, 16]");
  EXPECT_EQ(seen.names[27], "layers.1.feed_forward_norm[31, 12]");
}

TEST(LayerMasks, AreOneForEachLayer) {
  const TextEncoder model = TextEncoder::load(kTiny);  // two layers
  const TokenBatch tokens = one_text({3, 4});
  const std::array<Mask, 3> masks;
  const auto with_masks = [&](std::size_t count) {
    return model.forward(tokens, {.masks = std::span(masks).first(count)});
  };
  EXPECT_TRUE(same_bits(with_masks(2), model.forward(tokens)));
  for (const std::size_t count : {1, 3}) {
    EXPECT_EQ(message_of<std::invalid_argument>([&] { with_masks(count); }),
              fmt::format("transformer_stack: 2 layers have {} masks; give one for each, or none", count));
  }
}

// What is not wanted is not sent, and changes nothing.
TEST(Observers, AreNotSentWhatTheyDoNotWant) {
  struct Modest : SeenByName {
    bool wants(std::string_view name) const override { return !name.ends_with("weights") && name != "layers.0.logits"; }
  } modest;
  const TextEncoder model = TextEncoder::load(kTiny);
  const TokenBatch tokens = one_text({3, 4});
  EXPECT_TRUE(same_bits(model.forward(tokens, {}, &modest), model.forward(tokens)));
  for (const char* name : {"layers.0.weights", "layers.0.logits"}) EXPECT_FALSE(modest.all.contains(name)) << name;
  for (const char* name : {"layers.1.logits", "layers.1.heads"}) EXPECT_TRUE(modest.all.contains(name)) << name;
}

TEST(TextEncoder, RefusesTokensThatDoNotFit) {
  const TextEncoder bert = TextEncoder::load(kTiny), roberta = TextEncoder::load(golden_path("encoders/roberta"));
  const auto zeros = [](std::size_t count) { return std::vector<std::int32_t>(count); };
  Tensor offsets_from_minus_one = offsets_for({2});
  offsets_from_minus_one.data<std::int32_t>()[0] = -1;
  const std::string count = "bert: 2 ids need as many types (got ",
                    offsets = ") and i32 offsets [batch + 1] from 0 to their number";
  const std::tuple<const TextEncoder*, TokenBatch, std::string> cases[] = {
      {&bert, one_text({1, 30}), "embedding: id 30 is not in a table of 30 rows"},
      {&bert, one_text({1, -1}), "embedding: id -1 is not in a table of 30 rows"},
      {&bert, one_text({1, 2}, 2), "embedding: id 2 is not in a table of 2 rows"},
      {&bert, one_text(zeros(17)), "bert: sequence 0 has 17 tokens; the model has positions for 0 to 16"},
      {&roberta, one_text(std::vector<std::int32_t>(33, 5)),
       "bert: sequence 0 has 33 tokens; the model has positions for 0 to 32"},
      {&bert, {{1, 2}, {0}, offsets_for({2})}, count + "1" + offsets},
      {&bert, {{1, 2}, {0, 0}, offsets_from_minus_one}, count + "2" + offsets}};
  for (const auto& [model, tokens, message] : cases) {
    const auto refused = [&, &encoder = *model, &bad = tokens] { encoder.forward(bad); };
    EXPECT_EQ(message_of<std::invalid_argument>(refused), message);
  }
  EXPECT_EQ(bert.forward(one_text({})).shape(), (Dims{0, 12}));
  EXPECT_EQ(bert.forward(one_text(zeros(16))).size(0), 16);
  EXPECT_EQ(roberta.config().positions, 32);  // of 34 rows, those above the padding
  EXPECT_EQ(roberta.forward(one_text(std::vector<std::int32_t>(32, 5))).size(0), 32);
}

TEST(EncoderKind, MpnetHasPositionsAboveOneAndDistilBertNoTypes) {
  GoldenCopy changed("encoders/mpnet");
  const TextEncoder mpnet = TextEncoder::load(changed / ""),
                    distilbert = TextEncoder::load(golden_path("encoders/distilbert"));
  EXPECT_EQ(mpnet.config().positions, 200);  // 202 rows
  // The id of its padding is 1 whatever config.json says, as in transformers.
  changed.config["pad_token_id"] = 0;
  changed.config.erase("relative_attention_num_buckets");  // transformers' default
  changed.put("config.json", changed.config.dump());
  const TokenBatch text = one_text({0, 7, 1, 9, 2});
  EXPECT_TRUE(same_bits(TextEncoder::load(changed / "").forward(text), mpnet.forward(text)));
  EXPECT_TRUE(same_bits(distilbert.forward(one_text({3, 4, 5})), distilbert.forward(one_text({3, 4, 5}, 7))));
}

// The largest sizes that a config may name do not fit the tensors, which is found before anything is allocated.
TEST(TextEncoderFolder, EveryBrokenRuleOfTheConfigIsNamed) {
  std::string edits = R"(
. = [] => the document must be an object, is array
. = null => the document must be an object, is null
. = 3 => the document must be an object, is number
. = {} => vocab_size is missing
/vocab_size /max_position_embeddings /type_vocab_size /hidden_size /num_attention_heads /intermediate_size => each is missing
/num_hidden_layers /hidden_act /layer_norm_eps => each is missing
/vocab_size = 4294967326 => vocab_size is 4294967326, must be 1 to 1048576
/vocab_size = 18446744073709551615 => vocab_size is 18446744073709551615, must be 1 to 1048576
/vocab_size = -30 => vocab_size is -30, must be 1 to 1048576
/vocab_size = 30.5 => vocab_size must be an integer, is 30.5
/vocab_size = "30" => vocab_size must be an integer, is string
/vocab_size = null => vocab_size must be an integer, is null
/vocab_size = true => vocab_size must be an integer, is boolean
/vocab_size = [30] => vocab_size must be an integer, is array
/hidden_size = 1048577 => hidden_size is 1048577, must be 1 to 1048576
/num_hidden_layers = 1025 => num_hidden_layers is 1025, must be 1 to 1024
/num_hidden_layers = 0 => num_hidden_layers is 0, must be 1 to 1024
/num_attention_heads = 5 => num_attention_heads is 5, must divide hidden_size, 12
/num_attention_heads = 24 => num_attention_heads is 24, must divide hidden_size, 12
/max_position_embeddings = 1e9 => max_position_embeddings must be an integer written without a point or an exponent, is 1e+09
/hidden_act = "quick_gelu"
    => hidden_act must be "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "swish" or "silu", is "quick_gelu"
/hidden_act = null => hidden_act must be a string, is null
/model_type = "gpt2"
    => model_type is "gpt2"; the supported encoders are "bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "modernbert" and "albert"
/model_type = 1 => model_type must be a string, is number
/position_embedding_type = "relative_key" => position_embedding_type must be "absolute" for this model
/is_decoder = true => is_decoder must be false for this model
/is_decoder = "no" => is_decoder must be false for this model
/add_cross_attention = true => add_cross_attention must be false for this model
/pruned_heads = {"0": [1]} => pruned_heads must be {} for this model
/quantization_config = {"quant_method": "bitsandbytes"} => quantization_config must be null for this model
/layer_norm_eps = -1 => layer_norm_eps must be 0 or more, below 1
/layer_norm_eps = 1 => layer_norm_eps must be 0 or more, below 1
/layer_norm_eps = "1e-12" => layer_norm_eps must be a number, is string
/vocab_size = 1048576
    => model.safetensors: tensor "bert.embeddings.word_embeddings.weight" is [30, 12]; it must be [1048576, 12]
/hidden_size = 1048575
    => model.safetensors: tensor "bert.embeddings.word_embeddings.weight" is [30, 12]; it must be [30, 1048575]
/num_hidden_layers = 1024
    => model.safetensors: tensor "bert.encoder.layer.2.attention.self.query.weight" [12, 12] is missing
/num_hidden_layers = 1 => model.safetensors: tensor "bert.encoder.layer.1.attention.output.LayerNorm.bias" (and 15
    more) is not part of this model
/intermediate_size = 12
    => model.safetensors: tensor "bert.encoder.layer.0.intermediate.dense.weight" is [20, 12]; it must be [12, 12]
)";
  for (const std::string key : {"vocab_size", "max_position_embeddings", "type_vocab_size", "hidden_size",
                                "num_attention_heads", "intermediate_size"}) {
    for (const char* size : {"0", "2147483648"})
      edits += fmt::format("/{0} = {1} => {0} is {1}, must be 1 to 1048576\n", key, size);
  }
  expect_configs_refused<TextEncoder>("bert/tiny", edits);
  expect_configs_refused<TextEncoder>("encoders/roberta", R"(
/pad_token_id = 33 => max_position_embeddings is 34, must be above pad_token_id + 1, 34: positions begin there
/pad_token_id = 290 => pad_token_id is 290, must be 0 to 289
/pad_token_id => pad_token_id is missing
/is_decoder = true => is_decoder must be false for this model
)");
  expect_configs_refused<TextEncoder>("encoders/mpnet", R"(
/max_position_embeddings = 2
    => max_position_embeddings is 2, must be above the padding's id + 1, 2: positions begin there
/num_attention_heads = 6
    => model.safetensors: tensor "mpnet.encoder.relative_attention_bias.weight" is [32, 3]; it must be [32, 6]
)");
  expect_configs_refused<TextEncoder>("encoders/distilbert", R"(
/n_heads = 5 => n_heads is 5, must divide dim, 12
/model_type = "bert" => hidden_size is missing
)");
  const GoldenCopy folder("bert/tiny");
  folder.put("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(refusal_of<TextEncoder>(folder), "config.json: 1048577 bytes exceed the limit of 1048576");
}

const std::string kBias = "bert.encoder.layer.1.output.dense.bias";

TEST(TextEncoderFolder, EveryBrokenTensorIsNamed) {
  const std::string up = "bert.encoder.layer.0.intermediate.dense.weight",
                    word = "bert.embeddings.word_embeddings.weight", beyond = "bert.encoder.layer.2.output.dense.bias";
  const std::tuple<std::string, std::string, Tensor> cases[] = {
      {kBias, "is [13]; it must be [12]", Tensor::zeros({13})},
      {kBias, "is [0]; it must be [12]", Tensor::zeros({0})},
      {kBias, "is []; it must be [12]", Tensor::zeros({})},
      {kBias, "is [1, 12]; it must be [12]", Tensor::zeros({1, 12})},
      {up, "is [12, 20]; it must be [20, 12]", Tensor::zeros({12, 20})},  // transposed
      {word, "is [29, 12]; it must be [30, 12]", Tensor::zeros({29, 12})},
      {kBias, "is i32; it must be a floating type", Tensor::zeros({12}, Dtype::i32)},
      {kBias, "is bool; it must be a floating type", Tensor::zeros({12}, Dtype::boolean)},
      {beyond, "is not part of this model", Tensor::zeros({12})},
      {"bert.extra", "is not part of this model", Tensor::zeros({1})}};
  const GoldenCopy folder("bert/tiny");
  SafeTensors content = read_safetensors(kTiny + "/model.safetensors");
  const auto expect_refused = [&](const SafeTensors& changed, const std::string& name, const std::string& fault) {
    write_safetensors(folder / "model.safetensors", changed);
    EXPECT_EQ(refusal_of<TextEncoder>(folder), "model.safetensors: tensor \"" + name + "\" " + fault);
  };
  for (const auto& [name, fault, tensor] : cases) {
    SafeTensors changed = content;
    changed.tensors[name] = tensor;
    expect_refused(changed, name, fault);
  }
  content.tensors.erase(kBias);
  expect_refused(content, kBias, "[12] is missing");
  expect_refused({}, "embeddings.word_embeddings.weight", "[30, 12] is missing");
}

constexpr const char* kIndexFile = "model.safetensors.index.json";

std::string file_name(std::size_t number) { return fmt::format("model-0000{}-of-00003.safetensors", number); }

// The tiny model with its tensors dealt to three files in turn, and what says so.
struct Sharded {
  Sharded() {
    folder.put("config.json", slurp(kTiny + "/config.json"));
    std::size_t turn = 0;
    for (const auto& [name, tensor] : read_safetensors(kTiny + "/model.safetensors").tensors) {
      const std::string file = file_name(++turn % 3 + 1);
      files[file].tensors[name] = tensor;
      map[name] = file;
    }
  }
  void write() const {
    for (const auto& [file, content] : files) write_safetensors(folder / file, content);
    folder.put(kIndexFile, json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
  }

  TemporaryFolder folder;
  std::map<std::string, SafeTensors> files;
  std::map<std::string, std::string> map;  // from the tensor to its file
};

Tensor hidden(const std::string& folder) { return TextEncoder::load(folder).forward(one_text({3, 1, 4})); }

TEST(FolderTensors, SeveralFilesAreTheModelOfOne) {
  const Sharded model;
  model.write();
  EXPECT_EQ(TextEncoder::check(model.folder / "").vocab, 30);
  EXPECT_TRUE(same_bits(hidden(model.folder / ""), hidden(kTiny)));
  std::vector<std::string> files = {model.folder / "./model.safetensors.index.json"};
  for (const std::size_t number : {1, 2, 3}) files.push_back(model.folder / ("./" + file_name(number)));
  EXPECT_EQ(weight_files(model.folder / "."), files);
  // One file goes before an index, as in transformers, whose from_pretrained() looks for model.safetensors first.
  const GoldenCopy folder("bert/tiny");
  folder.put(kIndexFile, "no index");
  EXPECT_TRUE(same_bits(hidden(folder / ""), hidden(kTiny)));
  EXPECT_EQ(weight_files(folder / "."), std::vector<std::string>{folder / "./model.safetensors"});
}

TEST(FolderTensors, FilesMustBeThereAndHaveWhatTheIndexListsAndTheModelNeeds) {
  const std::string file = Sharded().map.at(kBias), index = kIndexFile;
  // A tensor, whether and how it is there, and whether it is listed.
  const std::tuple<std::string, std::optional<Tensor>, bool, std::string> cases[] = {
      {kBias, {}, true, file + ": tensor \"" + kBias + "\" is missing, but " + index + " lists it for this file"},
      {"extra\n", Tensor::zeros({1}), false, file + ": tensor \"extra\\x0a\" is not listed for this file in " + index},
      {kBias, Tensor::zeros({13}), true, file + ": tensor \"" + kBias + "\" is [13]; it must be [12]"},
      {kBias, {}, false, index + ": tensor \"" + kBias + "\" [12] is missing"},
      {"extra", Tensor::zeros({1}), true, file + ": tensor \"extra\" is not part of this model"}};
  for (const auto& [name, tensor, listed, message] : cases) {
    Sharded model;
    model.files.at(file).tensors.erase(name);
    model.map.erase(name);
    if (tensor) model.files.at(file).tensors[name] = *tensor;
    if (listed) model.map[name] = file;
    model.write();
    EXPECT_EQ(refusal_of<TextEncoder>(model.folder), message);
  }
  Sharded elsewhere;  // listed in another file than the one that has it
  elsewhere.map.at(kBias) = file_name(file == file_name(1) ? 2 : 1);
  elsewhere.write();
  EXPECT_NE(refusal_of<TextEncoder>(elsewhere.folder).find("tensor \"" + kBias + "\" is "), std::string::npos);
  // A file that is missing is named.
  const GoldenCopy alone("bert/tiny");
  std::filesystem::remove(alone / "model.safetensors");
  Sharded model;
  model.write();
  std::filesystem::remove(model.folder / file_name(2));
  EXPECT_NE(message_of<IoError>([&] { TextEncoder::check(model.folder / ""); }).find(file_name(2)), std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { TextEncoder::check(alone / ""); }).find("model.safetensors: "),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::test
