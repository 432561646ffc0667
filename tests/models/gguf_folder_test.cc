// GGUF files as folders: the weights that transformers saved (golden/gguf/make_models.py), and what is refused.
#include "models/gguf_folder.h"

#include "io/gguf_for_test.h"

namespace qkv::test {
namespace {

class GgufFolderKinds : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufFolderKinds, HasTheWeightsAndSizesOfTheReference) {
  const std::string kind = GetParam();
  const TemporaryFolder folder;
  const auto expected = read_safetensors(gguf_golden(kind + ".safetensors"));
  const ConvertedModel converted = convert_gguf(gguf_golden(kind + ".gguf"), folder / "model");
  EXPECT_EQ(converted.kind, kind);
  EXPECT_EQ(converted.tensors, expected.tensors.size());
  const auto written = read_safetensors(folder / "model/model.safetensors");
  ASSERT_EQ(written.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(written.tensors.contains(name));
    expect_equal(written.tensors.at(name), tensor);
  }
  const auto config = nlohmann::json::parse(slurp(folder / "model/config.json"));
  const nlohmann::json sizes = {{"model_type", kind},
                                {"vocab_size", converted.tokens},
                                {"hidden_size", 16},
                                {"intermediate_size", 24},
                                {"num_hidden_layers", 2},
                                {"num_attention_heads", 4},
                                {"num_key_value_heads", 2},
                                {"head_dim", kind == "qwen3" ? 8 : 4},
                                {"max_position_embeddings", 64},
                                {"rms_norm_eps", 1e-5},
                                {"rope_theta", 50000.0},
                                {"tie_word_embeddings", kind != "qwen2"},
                                {"attention_bias", kind == "qwen2"},
                                {"torch_dtype", "float32"},
                                {"bos_token_id", kind == "qwen3" ? 0 : 1},
                                {"eos_token_id", 2},
                                {"pad_token_id", 2}};
  for (const auto& [key, value] : sizes.items()) EXPECT_EQ(config.at(key), value) << key;
  const nlohmann::json ids = {{"bos_token_id", config["bos_token_id"]}, {"eos_token_id", 2}, {"pad_token_id", 2}};
  EXPECT_EQ(nlohmann::json::parse(slurp(folder / "model/generation_config.json")), ids);
  const auto tokenizer = nlohmann::json::parse(slurp(folder / "model/tokenizer_config.json"));
  EXPECT_EQ(tokenizer.at("bos_token"), kind == "qwen3" ? "<|endoftext|>" : "<|im_start|>");
  EXPECT_EQ(tokenizer.at("eos_token"), "<|im_end|>");
  EXPECT_TRUE(tokenizer.at("chat_template").get<std::string>().starts_with("{% for m in messages %}"));
}

INSTANTIATE_TEST_SUITE_P(, GgufFolderKinds, ::testing::Values("llama", "qwen2", "qwen3"),
                         [](const auto& kind) { return kind.param; });

TEST(GgufFolder, RefusesWhatIsNoSuchModel) {
  const auto size = [](const std::string& name, std::uint32_t value) { return "llama." + name + u32(4) + u32(value); };
  const auto with_size = [&](const std::string& name, std::uint32_t was, std::uint32_t is, const std::string& message) {
    return GgufEdit{size(name, was), size(name, is), message};
  };
  const std::string architecture = "general.architecture" + u32(8);
  const TemporaryFolder folder;
  expect_edits_refused(
      "llama.gguf",
      {{architecture + text_of("llama"), architecture + text_of("mamba"),
        "key \"general.architecture\": is \"mamba\"; supported: llama, qwen2, qwen3"},
       {"llama.block_count", "llama.block_counx", "key \"llama.block_count\" is missing"},
       with_size("block_count", 2, 0, "key \"llama.block_count\": is 0, must be 1 to 1024"),
       with_size("block_count", 2, 1,
                 "tensor \"blk.1.attn_q.weight\" is not part of the architecture llama with 1 "
                 "layers"),
       with_size("block_count", 2, 3, "tensor \"blk.2.attn_k.weight\" [8, 16] is missing"),
       with_size("embedding_length", 16, 0, "key \"llama.embedding_length\": is 0, must be 1 to "),
       with_size("embedding_length", 16, 18, "key \"llama.attention.head_count\": is 4, must divide 18"),
       with_size("embedding_length", 16, 12, "gives heads of 3, which must be even"),
       with_size("embedding_length", 16, 32, "tensor \"token_embd.weight\" is [286, 16]; it must be [286, 32]"),
       with_size("feed_forward_length", 24, 25, "tensor \"blk.0.ffn_gate.weight\" is [24, 16]; it must be [25, 16]"),
       with_size("attention.head_count_kv", 2, 3, "key \"llama.attention.head_count_kv\": is 3, must divide 4"),
       with_size("attention.head_count_kv", 2, 1, "tensor \"blk.0.attn_k.weight\" is [8, 16]; it must be [4, 16]"),
       {"llama.context_length", "llama.rope.scaling.t", "key \"llama.context_length\" is missing"},
       {"output_norm.weight", "output_norx.weight",
        "tensor \"output_norx.weight\" is not part of the architecture llama"},
       {"llama.attention.layer_norm_rms_epsilon", "llama.attention.layer_norm_rms_epsilox",
        "key \"llama.attention.layer_norm_rms_epsilon\" is missing"},
       {u32(6) + std::string("\xAC\xC5\x27\x37", 4), u32(6) + u32(0),
        "key \"llama.attention.layer_norm_rms_epsilon\": is 0, must be above 0"},
       {"tokenizer.ggml.pre" + u32(8) + text_of("smollm"), "tokenizer.ggml.pre" + u32(8) + text_of("smollx"),
        "key \"tokenizer.ggml.pre\": is \"smollx\""}},
      [&](const std::string& path) { convert_gguf(path, folder / "model"); });
  const std::string good = slurp(gguf_golden("llama.gguf"));
  const auto with_number = [&](const std::string& name, std::uint32_t value) {
    return with_key(good, key(name, 4, u32(value)));
  };
  const auto with_scaling = [&](const std::string& type) {
    return with_key(good, key("llama.rope.scaling.type", 8, text_of(type)));
  };
  expect_refused(
      {{with_number("split.count", 3), "key \"split.count\": is 3; models in several files are not converted"},
       {with_number("llama.expert_count", 8), "is 8; mixtures of experts are not converted"},
       {with_number("llama.attention.sliding_window", 32), "is 32; windows are not converted"},
       {with_number("llama.rope.dimension_count", 2), "is 2, must be 4, the size of a head"},
       {with_number("llama.attention.value_length", 8), "is 8, must be 4, the size of a head"},
       {with_number("llama.attention.key_length", 8), "is [16, 16]; it must be [32, 16]"},
       {with_scaling("yarn"), "key \"llama.rope.scaling.type\": is \"yarn\"; supported: none, linear"},
       {with_scaling("linear"), "key \"llama.rope.scaling.factor\" is missing"}},
      "m.gguf", [&](const std::string& path) { convert_gguf(path, folder / "model"); });
  EXPECT_TRUE(folder.names().empty());
  const std::string two("\0\0\0\x40", 4);
  const std::string linear =
      key("llama.rope.scaling.type", 8, text_of("linear")) + key("llama.rope.scaling.factor", 6, two);
  std::string scaled = with_key(good, linear);
  ++scaled[16];  // two keys
  // llama.cpp takes a factor without a type as linear, and knows its first name.
  for (const std::string& file : {scaled, with_key(good, key("llama.rope.scaling.factor", 6, two)),
                                  with_key(good, key("llama.rope.scale_linear", 6, two))}) {
    convert_gguf(folder.put("m.gguf", file), folder / "model");
    EXPECT_EQ(nlohmann::json::parse(slurp(folder / "model/config.json")).at("rope_scaling"),
              (nlohmann::json{{"rope_type", "linear"}, {"factor", 2.0}}));
    std::filesystem::remove_all(folder / "model");
  }
}

// llama.cpp stops at each of them; a turn of a chat may end by another token than a text.
TEST(GgufFolder, EndsOfTurnsAndMessagesEndTexts) {
  const std::string good = slurp(gguf_golden("llama.gguf"));  // whose texts end with 2
  const auto end = [](const std::string& name, std::uint32_t id) {
    return key("tokenizer.ggml." + name + "_token_id", 4, u32(id));
  };
  std::string both = with_key(good, end("eot", 7) + end("eom", 9));
  ++both[16];  // two keys
  const TemporaryFolder folder;
  for (const auto& [file, ends] : {std::pair(both, nlohmann::json{2, 7, 9}), {with_key(good, end("eot", 2)), 2}}) {
    convert_gguf(folder.put("m.gguf", file), folder / "model");
    EXPECT_EQ(nlohmann::json::parse(slurp(folder / "model/generation_config.json")).at("eos_token_id"), ends);
    EXPECT_EQ(nlohmann::json::parse(slurp(folder / "model/config.json")).at("eos_token_id"), 2);
    std::filesystem::remove_all(folder / "model");
  }
  expect_refused({{with_key(good, end("eot", 300)), "key \"tokenizer.ggml.eot_token_id\": is 300, must be 0 to 285"}},
                 "m.gguf", [&](const std::string& path) { convert_gguf(path, folder / "model"); });
}

}  // namespace
}  // namespace qkv::test
