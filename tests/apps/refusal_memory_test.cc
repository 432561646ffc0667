// What a model folder that is refused may cost: its own size and 64 MiB.
#include <fmt/format.h>

#include "apps/tiny_bert.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv::test {
namespace {

constexpr std::size_t kAllowed = std::size_t{64} << 20;

void expect_cheap_refusal(const std::string& name, const std::string& content, const std::string& part) {
  const TinyBert model;
  std::ofstream(model / name) << content;
  std::size_t size = 0;
  for (const std::string& file : model.names()) size += std::filesystem::file_size(model / file);
  const Outcome outcome =
      run_program({"embed", "--model", model / "", "--threads", "1"},
                  {.environment = {"MALLOC_ARENA_MAX=1"}, .input = "/dev/null", .memory = size + kAllowed});
  expect_message(outcome, 3, "qkv embed", part);
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
  const std::size_t most = std::size_t{16} << 20;
  expect_cheap_refusal("tokenizer.json", std::string(most + 1, ' '), "bytes exceed the limit");
  expect_cheap_refusal("tokenizer.json", "{\"" + std::string(most - 8, 'x') + "\": 1}", "white space of more than");
  expect_cheap_refusal("tokenizer.json", "{\"version\": \"" + std::string(4 << 20, 'x') + "\"}", "version is");
  expect_cheap_refusal("tokenizer.json", tokenizer_json(members(290'000, 40, "30")), "must be 0 to 29");
  expect_cheap_refusal("tokenizer.json", tokenizer_json(members(310'000, 4, "1")), "more than 300000 values");
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

}  // namespace
}  // namespace qkv::test

#endif
