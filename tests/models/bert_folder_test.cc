// Folders that break a rule: each is refused with one line that names the file, the field or tensor, and the rule.
#include <functional>
#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/bert.h"

namespace qkv {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

const std::string kTiny = QKV_TEST_DATA "/golden/bert/tiny";

// What the refusal of the tiny model with these two files says behind the folder's name.
std::string refusal(const std::string& config, const SafeTensors& content) {
  const test::TemporaryFolder folder;
  folder.put("config.json", config);
  write_safetensors(folder / "model.safetensors", content);
  const std::string message = test::message_of<FormatError>([&] { Bert::load(folder / ""); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(message.rfind("//") + 2);
}

TEST(BertFolder, EveryBrokenRuleOfTheConfigIsNamed) {
  struct Broken {
    std::string message;
    std::function<void(json&)> change;
  };
  const auto set = [](const char* key, const json& value) { return [=](json& c) { c[key] = value; }; };
  const auto drop = [](const char* key) { return [=](json& c) { c.erase(key); }; };
  const std::string word = "model.safetensors: tensor \"bert.embeddings.word_embeddings.weight\" ";
  const std::string query = "model.safetensors: tensor \"bert.encoder.layer.2.attention.self.query.weight\" ";
  const std::vector<Broken> cases = {
      {"config.json: the document must be an object, is array", [](json& c) { c = json::array(); }},
      {"config.json: the document must be an object, is null", [](json& c) { c = nullptr; }},
      {"config.json: the document must be an object, is number", [](json& c) { c = 3; }},
      {"config.json: vocab_size is missing", [](json& c) { c = json::object(); }},
      {"config.json: vocab_size is missing", drop("vocab_size")},
      {"config.json: max_position_embeddings is missing", drop("max_position_embeddings")},
      {"config.json: type_vocab_size is missing", drop("type_vocab_size")},
      {"config.json: hidden_size is missing", drop("hidden_size")},
      {"config.json: num_hidden_layers is missing", drop("num_hidden_layers")},
      {"config.json: num_attention_heads is missing", drop("num_attention_heads")},
      {"config.json: intermediate_size is missing", drop("intermediate_size")},
      {"config.json: hidden_act is missing", drop("hidden_act")},
      {"config.json: layer_norm_eps is missing", drop("layer_norm_eps")},
      {"config.json: vocab_size is 2147483648, must be 1 to 1048576", set("vocab_size", 2147483648)},
      {"config.json: vocab_size is 4294967326, must be 1 to 1048576", set("vocab_size", 4294967326)},  // 2^32 + 30
      {"config.json: vocab_size is 18446744073709551615, must be 1 to 1048576", set("vocab_size", UINT64_MAX)},
      {"config.json: vocab_size is 0, must be 1 to 1048576", set("vocab_size", 0)},
      {"config.json: vocab_size is -30, must be 1 to 1048576", set("vocab_size", -30)},
      {"config.json: vocab_size must be an integer, is number", set("vocab_size", 30.5)},
      {"config.json: vocab_size must be an integer, is string", set("vocab_size", "30")},
      {"config.json: vocab_size must be an integer, is null", set("vocab_size", nullptr)},
      {"config.json: vocab_size must be an integer, is boolean", set("vocab_size", true)},
      {"config.json: vocab_size must be an integer, is array", set("vocab_size", {30})},
      {"config.json: hidden_size is 2147483648, must be 1 to 1048576", set("hidden_size", 2147483648)},
      {"config.json: hidden_size is 0, must be 1 to 1048576", set("hidden_size", 0)},
      {"config.json: hidden_size is 1048577, must be 1 to 1048576", set("hidden_size", 1048577)},
      {"config.json: num_hidden_layers is 1000000000, must be 1 to 1024", set("num_hidden_layers", 1000000000)},
      {"config.json: num_hidden_layers is 1025, must be 1 to 1024", set("num_hidden_layers", 1025)},
      {"config.json: num_hidden_layers is 0, must be 1 to 1024", set("num_hidden_layers", 0)},
      {"config.json: num_hidden_layers is -1, must be 1 to 1024", set("num_hidden_layers", -1)},
      {"config.json: num_attention_heads is 0, must be 1 to 1048576", set("num_attention_heads", 0)},
      {"config.json: num_attention_heads is -3, must be 1 to 1048576", set("num_attention_heads", -3)},
      {"config.json: num_attention_heads is 5, must divide hidden_size, 12", set("num_attention_heads", 5)},
      {"config.json: num_attention_heads is 24, must divide hidden_size, 12", set("num_attention_heads", 24)},
      {"config.json: intermediate_size is 0, must be 1 to 1048576", set("intermediate_size", 0)},
      {"config.json: intermediate_size is 2147483648, must be 1 to 1048576", set("intermediate_size", 2147483648)},
      {"config.json: max_position_embeddings is 0, must be 1 to 1048576", set("max_position_embeddings", 0)},
      {"config.json: max_position_embeddings must be an integer, is number", set("max_position_embeddings", 1e9)},
      {"config.json: type_vocab_size is 0, must be 1 to 1048576", set("type_vocab_size", 0)},
      {"config.json: hidden_act must be \"relu\", \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"swish\" or "
       "\"silu\", is "
       "\"quick_gelu\"",
       set("hidden_act", "quick_gelu")},
      {"config.json: hidden_act must be a string, is null", set("hidden_act", nullptr)},
      {"config.json: model_type is \"gpt2\"; the supported encoders are \"bert\", \"roberta\", \"xlm-roberta\", "
       "\"distilbert\" and \"mpnet\"",
       set("model_type", "gpt2")},
      {"config.json: model_type must be a string, is number", set("model_type", 1)},
      {"config.json: position_embedding_type must be \"absolute\" for this model",
       set("position_embedding_type", "relative_key")},
      {"config.json: is_decoder must be false for this model", set("is_decoder", true)},
      {"config.json: is_decoder must be false for this model", set("is_decoder", "no")},
      {"config.json: add_cross_attention must be false for this model", set("add_cross_attention", true)},
      {"config.json: pruned_heads must be {} for this model", set("pruned_heads", {{"0", {1}}})},
      {"config.json: quantization_config must be null for this model",
       set("quantization_config", {{"quant_method", "bitsandbytes"}})},
      {"config.json: layer_norm_eps must be 0 or more, below 1", set("layer_norm_eps", -1)},
      {"config.json: layer_norm_eps must be 0 or more, below 1", set("layer_norm_eps", 1)},
      {"config.json: layer_norm_eps must be a number, is string", set("layer_norm_eps", "1e-12")},
      // The largest sizes that a config may name do not fit the tensors, which is found before anything is allocated.
      {word + "is [30, 12]; it must be [1048576, 12]", set("vocab_size", 1048576)},
      {word + "is [30, 12]; it must be [30, 1048575]", set("hidden_size", 1048575)},
      {query + "[12, 12] is missing", set("num_hidden_layers", 1024)},
      {"model.safetensors: tensor \"bert.encoder.layer.1.attention.output.LayerNorm.bias\" (and 15 more) is not "
       "part of this model",
       set("num_hidden_layers", 1)},
      {"model.safetensors: tensor \"bert.encoder.layer.0.intermediate.dense.weight\" is [20, 12]; it must be [12, 12]",
       set("intermediate_size", 12)},
  };
  const json config = json::parse(test::slurp(kTiny + "/config.json"));
  const SafeTensors content = read_safetensors(kTiny + "/model.safetensors");
  for (const Broken& broken : cases) {
    json changed = config;
    broken.change(changed);
    EXPECT_EQ(refusal(changed.dump(), content), broken.message);
  }
}

TEST(BertFolder, TextThatIsNoConfigIsRefused) {
  const SafeTensors content = read_safetensors(kTiny + "/model.safetensors");
  const std::string deep(100'000, '[');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "config.json: not valid JSON at line 1, column 1"},
      {"{", "config.json: not valid JSON at line 1, column 2"},
      {"{\"vocab_size\": 1e999}", "config.json: number out of range at line 1, column 20"},
      {"{\"a\": NaN}", "config.json: not valid JSON at line 1, column 7"},
      {"{\"a\": 1, \"a\": 2}", "config.json: key \"a\" appears twice"},
      {"{} {}", "config.json: not valid JSON at line 1, column 4"},
      {std::string("{}\0", 3), "config.json: not valid JSON at line 1, column 3: a zero byte"},
      {"\xFF\xFE{\0}", "config.json: not valid JSON at line 1, column 1"},
      {"{\"\xC0\x80\": 1}", "config.json: not valid JSON at line 1, column 3"},
      {deep, "config.json: nested deeper than 32"},
      {std::string((1 << 20) + 1, ' '), "config.json: 1048577 bytes exceed the limit of 1048576"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(refusal(text, content), message);
}

TEST(BertFolder, EveryBrokenTensorIsNamed) {
  const std::string bias = "bert.encoder.layer.1.output.dense.bias",
                    up = "bert.encoder.layer.0.intermediate.dense.weight";
  const auto named = [](const std::string& name) { return "model.safetensors: tensor \"" + name + "\" "; };
  const auto put = [](const std::string& name, const Dims& shape, Dtype dtype = Dtype::f32) {
    return [=](Tensors& tensors) { tensors[name] = Tensor::zeros(shape, dtype); };
  };
  struct Broken {
    std::string message;
    std::function<void(Tensors&)> change;
  };
  const std::vector<Broken> cases = {
      {named(bias) + "[12] is missing", [&](Tensors& tensors) { tensors.erase(bias); }},
      {named("embeddings.word_embeddings.weight") + "[30, 12] is missing", [](Tensors& tensors) { tensors.clear(); }},
      {named(bias) + "is [13]; it must be [12]", put(bias, {13})},
      {named(bias) + "is [0]; it must be [12]", put(bias, {0})},
      {named(bias) + "is []; it must be [12]", put(bias, {})},
      {named(bias) + "is [1, 12]; it must be [12]", put(bias, {1, 12})},
      {named(up) + "is [12, 20]; it must be [20, 12]", put(up, {12, 20})},  // transposed
      {named(bias) + "is i32; it must be a floating type", put(bias, {12}, Dtype::i32)},
      {named(bias) + "is bool; it must be a floating type", put(bias, {12}, Dtype::boolean)},
      {named("bert.encoder.layer.2.output.dense.bias") + "is not part of this model",
       put("bert.encoder.layer.2.output.dense.bias", {12})},
      {named("bert.extra\\x0a") + "is not part of this model", put("bert.extra\n", {1})},
      {named("bert.embeddings.word_embeddings.weight") + "is [29, 12]; it must be [30, 12]",
       put("bert.embeddings.word_embeddings.weight", {29, 12})},
  };
  const std::string config = test::slurp(kTiny + "/config.json");
  const SafeTensors content = read_safetensors(kTiny + "/model.safetensors");
  for (const Broken& broken : cases) {
    SafeTensors changed;
    for (const auto& [name, tensor] : content.tensors) changed.tensors[name] = Tensor::copy(tensor);
    broken.change(changed.tensors);
    EXPECT_EQ(refusal(config, changed), broken.message);
  }
}

}  // namespace
}  // namespace qkv
