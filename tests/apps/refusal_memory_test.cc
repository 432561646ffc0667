// What a model folder that is refused may cost: its own size and 64 MiB; of its weights nothing but the header.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/tiny_bert.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv::test {
namespace {

constexpr std::size_t kAllowed = std::size_t{64} << 20;

void expect_cheap_refusal(const TinyBert& model, const std::string& name, const std::string& content,
                          const std::string& part) {
  std::ofstream(model / name) << content;
  std::size_t size = 0;
  for (const std::string& file : model.names()) size += std::filesystem::file_size(model / file);
  const Outcome outcome =
      run_program({"embed", "--model", model / "", "--threads", "1"},
                  {.environment = {"MALLOC_ARENA_MAX=1"}, .input = "/dev/null", .memory = size + kAllowed});
  expect_message(outcome, 3, "qkv embed", part);
}

void expect_cheap_refusal(const std::string& name, const std::string& content, const std::string& part) {
  expect_cheap_refusal(TinyBert(), name, content, part);
}

// A tokenizer.json with this vocabulary and a post-processor that is refused after everything else has been read.
std::string tokenizer_json(const std::string& vocab) {
  return R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": {"?": 0)" +
         vocab + R"(}}, "post_processor": {"type": "X"}})";
}

// `count` members of an object, with keys of `length` characters.
std::string members(int count, int length, const std::string& value) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format(", \"{:a>{}}\": {}", i, length, value);
  return list;
}

std::string safetensors(const std::string& header) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i);
  return length + header;
}

TEST(RefusalMemory, OfTokenizers) {
  const std::size_t most = std::size_t{20} << 20;
  expect_cheap_refusal("tokenizer.json", std::string(most + 1, ' '), "bytes exceed the limit");
  expect_cheap_refusal("tokenizer.json", "{\"" + std::string(most - 8, 'x') + "\": 1}", "white space of more than");
  expect_cheap_refusal("tokenizer.json", "{\"version\": \"" + std::string(4 << 20, 'x') + "\"}", "version is");
  expect_cheap_refusal("tokenizer.json", tokenizer_json(members(410'000, 40, "30")), "must be 0 to 29");
  expect_cheap_refusal("tokenizer.json", tokenizer_json(members(990'000, 9, "1")), "is one too many: the model has 30");
  expect_cheap_refusal("tokenizer.json", tokenizer_json(members(1'010'000, 4, "1")), "more than 1000000 values");
  std::string vocab;  // as many tokens as the model has, as long as they may be
  for (int i = 1; i < 30; ++i) vocab += fmt::format(", \"{:a>1024}\": {}", i, i);
  expect_cheap_refusal("tokenizer.json", tokenizer_json(vocab), "post_processor.type");
}

TEST(RefusalMemory, OfTensors) {
  const std::string empty = R"({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})";
  expect_cheap_refusal("model.safetensors", safetensors("{" + members(100'000, 20, empty).substr(1) + "}"),
                       "is missing");
  expect_cheap_refusal("model.safetensors", safetensors("{" + members(3000, 4000, empty).substr(1) + "}"),
                       "the names take");
  expect_cheap_refusal("model.safetensors", safetensors("{\"" + std::string(15'900'000, 'x') + "\": 1}"),
                       "white space of more than");
}

// What a large tokenizer takes does not come on top of what a large header takes.
TEST(RefusalMemory, OfTensorsBesideALargeTokenizer) {
  const TinyBert model;
  std::string config = contents(model / "config.json");
  const std::string vocab = "\"vocab_size\": 30";
  ASSERT_NE(config.find(vocab), std::string::npos);
  std::ofstream(model / "config.json") << config.replace(config.find(vocab), vocab.size(), "\"vocab_size\": 299990");
  std::string tokens = "\"?\": 0";
  for (int i = 1; i < 299'000; ++i) tokens += fmt::format(", \"{:a>40}\": {}", i, i);
  std::ofstream(model / "tokenizer.json")
      << R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
             "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": {)" +
             tokens + "}}}";
  const std::string empty = R"({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})";
  expect_cheap_refusal(model, "model.safetensors", safetensors("{" + members(100'000, 39, empty).substr(1) + "}"),
                       "is missing");
}

// Tensors of a folder by name and shape, of 100 million weights, and its config.json.
struct LargeModel {
  std::string config;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors{};

  void add_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    tensors.push_back({name + ".weight", {out, in}});
    tensors.push_back({name + ".bias", {out}});
  }
  void add_norm(const std::string& name) {
    for (const char* part : {".weight", ".bias"}) tensors.push_back({name + part, {1024}});
  }
};

LargeModel large_bert() {
  LargeModel model{.config = R"({"model_type": "bert", "vocab_size": 61000, "max_position_embeddings": 512,
      "type_vocab_size": 2, "hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16,
      "intermediate_size": 4096, "hidden_act": "gelu", "layer_norm_eps": 1e-12})"};
  model.tensors = {{"embeddings.word_embeddings.weight", {61000, 1024}},
                   {"embeddings.position_embeddings.weight", {512, 1024}},
                   {"embeddings.token_type_embeddings.weight", {2, 1024}}};
  model.add_norm("embeddings.LayerNorm");
  for (int i = 0; i < 3; ++i) {
    const std::string layer = fmt::format("encoder.layer.{}.", i);
    for (const char* role : {"self.query", "self.key", "self.value", "output.dense"}) {
      model.add_linear(layer + "attention." + role, 1024, 1024);
    }
    model.add_norm(layer + "attention.output.LayerNorm");
    model.add_linear(layer + "intermediate.dense", 4096, 1024);
    model.add_linear(layer + "output.dense", 1024, 4096);
    model.add_norm(layer + "output.LayerNorm");
  }
  return model;
}

LargeModel large_marian() {
  LargeModel model{.config = R"({"model_type": "marian", "is_encoder_decoder": true, "vocab_size": 32000,
      "max_position_embeddings": 512, "d_model": 1024, "encoder_layers": 3, "decoder_layers": 2,
      "encoder_attention_heads": 16, "decoder_attention_heads": 16, "encoder_ffn_dim": 4096,
      "decoder_ffn_dim": 4096, "activation_function": "relu", "scale_embedding": true, "eos_token_id": 0,
      "pad_token_id": 1, "decoder_start_token_id": 1})"};
  model.tensors = {{"model.shared.weight", {32000, 1024}}, {"final_logits_bias", {1, 32000}}};
  for (const auto& [side, layers] : {std::pair{"encoder", 3}, {"decoder", 2}}) {
    for (int i = 0; i < layers; ++i) {
      const std::string layer = fmt::format("model.{}.layers.{}.", side, i);
      for (const std::string attention : {"self_attn", "encoder_attn"}) {
        if (attention == "encoder_attn" && layers == 3) continue;
        for (const char* role : {".q_proj", ".k_proj", ".v_proj", ".out_proj"}) {
          model.add_linear(layer + attention + role, 1024, 1024);
        }
        model.add_norm(layer + attention + "_layer_norm");
      }
      model.add_linear(layer + "fc1", 4096, 1024);
      model.add_linear(layer + "fc2", 1024, 4096);
      model.add_norm(layer + "final_layer_norm");
    }
  }
  return model;
}

// The weights as a file without blocks on the disk; the last tensor is given, the others have the type `dtype`.
void put_weights(const LargeModel& model, const std::string& path, const std::string& dtype,
                 const std::string& last_name, const std::vector<std::int64_t>& last_shape,
                 const std::string& last_dtype) {
  std::string header = "{";
  std::int64_t begin = 0, weights = 0;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, const std::string& type) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    const std::int64_t end = begin + count * (type.ends_with("32") ? 4 : 2);
    header += fmt::format("{}\"{}\": {{\"dtype\": \"{}\", \"shape\": [{}], \"data_offsets\": [{}, {}]}}",
                          begin == 0 ? "" : ", ", name, type, fmt::join(shape, ", "), begin, end);
    begin = end;
    weights += count;
  };
  for (std::size_t i = 0; i + 1 < model.tensors.size(); ++i)
    add(model.tensors[i].first, model.tensors[i].second, dtype);
  add(last_name, last_shape, last_dtype);
  const std::string bytes = safetensors(header + "}");
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::resize_file(path, bytes.size() + static_cast<std::size_t>(begin));
  EXPECT_GT(weights, 100'000'000);
}

class RefusalMemoryOfWeights : public ::testing::TestWithParam<const char*> {
 protected:
  // Each command refuses the model for a fault at the end of its weights, then for one in its tokenizer.
  void expect_refusals(const LargeModel& model, const std::vector<std::vector<std::string>>& commands) {
    std::ofstream(folder_ / "config.json") << model.config;
    const auto& [name, shape] = model.tensors.back();
    const auto try_all = [&](const std::string& part) {
      for (std::vector<std::string> arguments : commands) {
        const std::string command = "qkv " + arguments[0];
        arguments.insert(arguments.end(), {"--model", folder_ / "", "--threads", "1"});
        expect_message(
            run_program(arguments, {.environment = {"MALLOC_ARENA_MAX=1"}, .input = "/dev/null", .memory = kAllowed}),
            3, command, part);
      }
    };
    const std::string dtype = GetParam(), weights = folder_ / "model.safetensors";
    put_weights(model, weights, dtype, name + "s", shape, dtype);
    try_all(name + "\" [1024] is missing");
    put_weights(model, weights, dtype, name, {1025}, dtype);
    try_all(name + "\" is [1025]; it must be [1024]");
    put_weights(model, weights, dtype, name, shape, "I32");
    try_all(name + "\" is i32; it must be a floating type");
    put_weights(model, weights, dtype, name, shape, dtype);
    std::ofstream(folder_ / "tokenizer.json") << tokenizer_json("");
    try_all("post_processor.type");
  }

  const TinyBert folder_;
};

INSTANTIATE_TEST_SUITE_P(, RefusalMemoryOfWeights, ::testing::Values("F32", "BF16", "F16"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(RefusalMemoryOfWeights, Bert) { expect_refusals(large_bert(), {{"embed"}, {"explain", "--text", "a b"}}); }

TEST_P(RefusalMemoryOfWeights, Marian) {
  expect_refusals(large_marian(), {{"translate"}, {"explain", "--text", "a b"}});
}

}  // namespace
}  // namespace qkv::test

#endif
