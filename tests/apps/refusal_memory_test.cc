// What a model folder that is refused may cost: its own size and 64 MiB; of its weights nothing but the header.
#include "apps/tiny_bert.h"
#include "qkv/files.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv::test {
namespace {

constexpr std::size_t kAllowed = std::size_t{64} << 20;
const std::string kEmpty = R"({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})";

void expect_cheap_refusal(const TinyBert& model, const std::string& name, const std::string& content,
                          const std::string& part) {
  model.put("model/" + name, content);
  std::size_t size = 0;
  for (const auto& file : std::filesystem::directory_iterator(model / "model")) size += file.file_size();
  const std::string line = "MALLOC_ARENA_MAX=1 embed --model model --threads 1";
  expect_message(model.run(line, {.memory = size + kAllowed}), 3, "qkv embed", part);
}

// A tokenizer.json with this vocabulary and a post-processor that is refused after everything else has been read.
std::string tokenizer_json(const std::string& vocab, const std::string& post_processor = R"({"type": "X"})") {
  return R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null, "decoder": null, "model": {
             "type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": {"?": 0)" +
         vocab + R"(}}, "post_processor": )" + post_processor + "}";
}

// So many members of an object, with keys of `length` characters and a value, or their own numbers, from 1.
std::string members(int count, int length, const std::string& value = "") {
  std::string list;
  for (int i = 1; i <= count; ++i) {
    list += fmt::format(", \"{:a>{}}\": {}", i, length, value.empty() ? std::to_string(i) : value);
  }
  return list;
}

std::string safetensors(const std::string& header) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i);
  return length + header;
}

std::string tensors(const std::string& members) { return safetensors("{" + members.substr(1) + "}"); }

TEST(RefusalMemory, OfTokenizers) {
  const std::size_t most = std::size_t{36} << 20;
  const auto refuse = [](const std::string& content, const std::string& part) {
    expect_cheap_refusal(TinyBert(), "tokenizer.json", content, part);
  };
  refuse(std::string(most + 1, ' '), "bytes exceed the limit");
  refuse("{\"" + std::string(most - 8, 'x') + "\": 1}", "white space of more than");
  refuse("{\"version\": \"" + std::string(4 << 20, 'x') + "\"}", "version is");
  refuse(tokenizer_json(members(410'000, 40, "30")), "must be 0 to 29");
  refuse(tokenizer_json(members(990'000, 9, "1")), "is one too many: the model has 30");
  refuse(tokenizer_json(members(1'260'000, 4, "1")), "more than 2500000 values");
  refuse(tokenizer_json(members(29, 1024)), "post_processor.type");  // as many as the model has, as long as they may be
}

// What qkv tokenizer says of a file of this content, with so much memory.
Outcome encode_with(const std::string& name, const std::string& content) {
  const Folder folder;
  folder.put(name, content);
  return folder.run("MALLOC_ARENA_MAX=1 tokenizer encode --tokenizer " + name, {.memory = content.size() + kAllowed});
}

// A byte-pair vocabulary of Gemma's size opens: 262,144 tokens of up to three characters, and both cuts of each as
// merges.
TEST(RefusalMemory, LargeTokenizersOpen) {
  const auto letter = [](int i) {
    return fmt::format("{:c}", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[i]);
  };
  std::string vocab, merges;
  int count = 0;
  const auto add = [&](const std::string& token) {
    vocab += fmt::format("{}\n      \"{}\": {}", count == 0 ? "" : ",", token, count);
    ++count;
  };
  const auto merge = [&](const std::string& left, const std::string& right) {
    merges +=
        fmt::format("{}\n      [\n        \"{}\",\n        \"{}\"\n      ]", merges.empty() ? "" : ",", left, right);
  };
  for (int i = 0; i < 64; ++i) add(letter(i));
  for (int i = 0; i < 64 * 64; ++i) {
    add(letter(i / 64) + letter(i % 64));
    merge(letter(i / 64), letter(i % 64));
  }
  for (int i = 0; count < 262'144; ++i) {
    const std::string a = letter(i / 64 / 64), b = letter(i / 64 % 64), c = letter(i % 64);
    add(a + b + c);
    merge(a + b, c);
    merge(a, b + c);
  }
  const std::string json = R"({"model": {"type": "BPE", "vocab": {)" + vocab + R"(}, "merges": [)" + merges + "]}}";
  EXPECT_EQ(encode_with("tokenizer.json", json).err, "");
}

std::string gguf_number(std::uint64_t value, std::size_t bytes) {
  return std::string(reinterpret_cast<const char*>(&value), bytes);
}
std::string gguf_text(const std::string& text) { return gguf_number(text.size(), 8) + text; }
// Of the type of strings; `values` have their lengths.
std::string gguf_strings(const std::string& key, std::uint64_t count, const std::string& values) {
  return gguf_text(key) + gguf_number(9, 4) + gguf_number(8, 4) + gguf_number(count, 8) + values;
}
std::string gguf(std::uint64_t tensors, std::uint64_t keys, const std::string& content) {
  return "GGUF" + gguf_number(3, 4) + gguf_number(tensors, 8) + gguf_number(keys, 8) + content;
}

TEST(RefusalMemory, OfGgufFiles) {
  const auto refuse = [](const std::string& content, const std::string& part) {
    expect_message(encode_with("m.gguf", content), 3, "qkv tokenizer encode", part);
  };
  std::string keys, tensors, tokens, merges;
  for (int i = 0; i < 100'000; ++i) {
    keys += gguf_text(fmt::format("{:020}", i)) + gguf_number(0, 4) + "x";
    tensors += gguf_text(fmt::format("{:018}", i)) + gguf_number(1, 4) + gguf_number(0, 8) + gguf_number(0, 4) +
               gguf_number(0, 8);
  }
  refuse(gguf(0, 100'000, keys), "key \"tokenizer.ggml.model\" is missing");
  refuse(gguf(100'000, 100'000, keys + tensors), "the file ends before its data");
  const std::string model = gguf_text("tokenizer.ggml.model") + gguf_number(8, 4) + gguf_text("gpt2"),
                    pre = gguf_text("tokenizer.ggml.pre") + gguf_number(8, 4);
  refuse(gguf(0, 2, model + gguf_strings("tokenizer.ggml.tokens", 8'000'000, std::string(64'000'000, '\0'))),
         "has 8000000 elements, must have at most 524288");
  refuse(gguf(0, 1, gguf_text("a") + gguf_number(8, 4) + gguf_text(std::string(100'000'000, 'x') + "\xff")),
         "is not UTF-8");
  constexpr std::uint64_t kTokens = 524'288;
  for (std::uint64_t i = 0; i < kTokens; ++i) tokens += gguf_text(fmt::format("{:x}", i));
  for (int i = 0; i < 16 * 16 * 16; ++i) merges += gguf_text(fmt::format("{:x} {:x}", i / 16 + 1, i % 16));
  const std::string all = model + gguf_strings("tokenizer.ggml.tokens", kTokens, tokens);
  refuse(gguf(0, 3, all + pre + gguf_text("x")), "supported: gpt-2, smollm");
  refuse(gguf(0, 4,
              all + pre + gguf_text("gpt-2") + gguf_strings("tokenizer.ggml.merges", 4097, merges + gguf_text("g g"))),
         "merge 4096: \"gg\" is not in the vocabulary");
}

TEST(RefusalMemory, OfTensors) {
  const auto refuse = [](const TinyBert& model, const std::string& content, const std::string& part) {
    expect_cheap_refusal(model, "model.safetensors", content, part);
  };
  refuse(TinyBert(), tensors(members(100'000, 20, kEmpty)), "is missing");
  refuse(TinyBert(), tensors(members(3000, 4000, kEmpty)), "the names take");
  refuse(TinyBert(), safetensors("{\"" + std::string(15'900'000, 'x') + "\": 1}"), "white space of more than");
  // What a large tokenizer takes does not come on top of what a large header takes.
  const TinyBert model;
  Json config = Json::parse(slurp(model / "model/config.json"));
  config["vocab_size"] = 299990;
  model.put("model/config.json", config.dump());
  model.put("model/tokenizer.json", tokenizer_json(members(299'000, 40), "null"));
  refuse(model, tensors(members(100'000, 39, kEmpty)), "is missing");
}

// The sizes of a golden model, grown until its weights are 100 million.
std::int64_t grown(std::int64_t size) {
  static const std::map<std::int64_t, std::int64_t> sizes{{3, 16},    {12, 1024},  {16, 1024}, {20, 4096},
                                                          {24, 4096}, {30, 80000}, {32, 1024}, {41, 80000}};
  return sizes.contains(size) ? sizes.at(size) : size;
}

class RefusalMemoryOfWeights : public ::testing::TestWithParam<std::string> {
 protected:
  // The weights of `model` in the parameter's type as a file without blocks on the disk, but for the last of them.
  void put_weights(const std::string& model, const std::string& last, std::int64_t size, const std::string& last_type) {
    Json header;
    std::int64_t begin = 0, weights = 0;
    const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, const std::string& type) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      const std::int64_t end = begin + count * (type.ends_with("32") ? 4 : 2);
      header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, end}}};
      begin = end;
      weights += count;
    };
    for (const auto& [name, tensor] : read_safetensors(model + "/model.safetensors").tensors) {
      std::vector<std::int64_t> shape;
      for (const std::int64_t extent : tensor.shape()) shape.push_back(grown(extent));
      if (!last.starts_with(name)) add(name, shape, GetParam());
    }
    add(last, {size}, last_type);
    const std::string bytes = safetensors(header.dump());
    std::filesystem::resize_file(folder_.put("model/model.safetensors", bytes), bytes.size() + std::size_t(begin));
    EXPECT_GT(weights, 100'000'000);
  }

  // Each command refuses the model for a fault in the last of its weights, then for one in its tokenizer.
  void expect_refusals(const std::string& golden, const std::string& last, const std::vector<std::string>& commands) {
    const std::string model = QKV_TEST_DATA "/golden/" + golden, type = GetParam();
    Json config = Json::parse(slurp(model + "/config.json"));
    for (Json& value : config) {
      if (value.is_number_integer()) value = grown(value);
    }
    folder_.put("model/config.json", config.dump());
    const auto refuse = [&](const std::string& name, std::int64_t size, const std::string& last_type,
                            const std::string& message) {
      put_weights(model, name, size, last_type);
      for (const std::string& command : commands) {
        const std::string line = "MALLOC_ARENA_MAX=1 " + command + " --model model --threads 1";
        expect_message(folder_.run(line, {.memory = kAllowed}), 3, "qkv " + words_of(command)[0], message);
      }
    };
    refuse(last + "s", 1024, type, last + "\" [1024] is missing");
    refuse(last, 1025, type, last + "\" is [1025]; it must be [1024]");
    refuse(last, 1024, "I32", last + "\" is i32; it must be a floating type");
    folder_.put("model/tokenizer.json", tokenizer_json(""));
    refuse(last, 1024, type, "post_processor.type");
  }

  const TinyBert folder_;
};

INSTANTIATE_TEST_SUITE_P(, RefusalMemoryOfWeights, ::testing::Values("F32", "BF16", "F16"),
                         [](const auto& type) { return type.param; });

TEST_P(RefusalMemoryOfWeights, TextEncoder) {
  expect_refusals("bert/tiny", "bert.encoder.layer.1.output.dense.bias", {"embed", "explain --text 'a b'"});
}

TEST_P(RefusalMemoryOfWeights, TransformerEncoderDecoder) {
  expect_refusals("translate/relu", "model.decoder.layers.1.final_layer_norm.bias",
                  {"translate", "explain --text 'a b'"});
}

}  // namespace
}  // namespace qkv::test

#endif
