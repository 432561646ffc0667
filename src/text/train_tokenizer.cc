// TokenizerTrainer: counts words, learns merges and writes a tokenizer.json.
#include "qkv/text/train_tokenizer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "text/stages/byte_alphabet.h"
#include "text/tokenizer_parts.h"
#include "text/vocabularies/bpe.h"

namespace qkv {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEnd = "</s>";
constexpr const char* kUnknown = "<unk>";
constexpr const char* kPadding = "<pad>";
constexpr std::size_t kBytes = 256;

// By byte.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens(kBytes);
  for (std::size_t byte = 0; byte < kBytes; ++byte) text::append_utf8(tokens[byte], text::kByteCharacters[byte]);
  return tokens;
}

Json special_token(const char* content, std::size_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

// `tokens` are those between the special ones at both ends.
Json tokenizer_json(const std::vector<std::string>& tokens, const Json& merges, EndTokenPlace place) {
  const std::size_t padding = tokens.size() + 2;
  Json vocab = {{kEnd, 0}, {kUnknown, 1}};
  auto& members = vocab.get_ref<Json::object_t&>();  // all are new: operator[] would search all before it
  for (std::size_t i = 0; i < tokens.size(); ++i) members.push_back({tokens[i], i + 2});
  members.push_back({kPadding, padding});
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 0}}}};
  const Json end = {{"SpecialToken", {{"id", kEnd}, {"type_id", 0}}}};
  const bool before = place == EndTokenPlace::before;
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           Json::array({special_token(kEnd, 0), special_token(kUnknown, 1), special_token(kPadding, padding)})},
          {"normalizer", {{"type", "Prepend"}, {"prepend", " "}}},
          {"pre_tokenizer", byte_level()},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", before ? Json::array({end, text}) : Json::array({text, end})},
            {"pair", before ? Json::array({end, text, second}) : Json::array({text, second, end})},
            {"special_tokens", {{kEnd, {{"id", kEnd}, {"ids", Json::array({0})}, {"tokens", Json::array({kEnd})}}}}}}},
          {"decoder", {{"type", "Sequence"}, {"decoders", Json::array({byte_level(), strip})}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", merges}}}};
}

}  // namespace

struct TokenizerTrainer::State {
  EndTokenPlace place;
  // Text is cut into words by the very tokenizer that will use the vocabulary.
  Tokenizer::Parts parts;
  std::unordered_map<std::string, std::int64_t> words;  // in bytes, and how often they were seen
};

TokenizerTrainer::TokenizerTrainer(EndTokenPlace place)
    : state_(std::make_unique<State>(State{.place = place, .parts = {}, .words = {}})) {
  const std::string json = tokenizer_json(byte_tokens(), Json::array(), place).dump();
  state_->parts =
      text::read_tokenizer_json(std::make_unique<const io::JsonDocument>(json, "tokenizer.json"), Tokenizer::kAnyVocab);
}

TokenizerTrainer::~TokenizerTrainer() = default;

void TokenizerTrainer::add(std::string_view utf8) {
  text::for_each_word(state_->parts, utf8, [&](const text::AddedToken* token, text::CharacterSpan word) {
    if (token != nullptr) return true;
    std::string bytes;
    for (const text::Character& c : word) bytes += static_cast<char>(*text::byte_of(c.code));
    ++state_->words[std::move(bytes)];
    return true;
  });
}

std::string TokenizerTrainer::train(std::int64_t vocab) const {
  if (vocab < kSmallestVocab || vocab > kLargestVocab) {
    throw std::invalid_argument(
        fmt::format("a vocabulary of {} tokens; it must have {} to {}", vocab, kSmallestVocab, kLargestVocab));
  }
  std::vector<text::CountedWord> words;
  for (const auto& [bytes, count] : state_->words) {
    text::CountedWord word{{}, count};
    for (const char byte : bytes) word.symbols.push_back(static_cast<unsigned char>(byte));
    words.push_back(std::move(word));
  }
  std::vector<std::string> tokens = byte_tokens();
  Json merges = Json::array();
  const auto most = static_cast<std::size_t>(vocab - kSmallestVocab);
  for (const auto& [left, right] : text::learn_byte_pairs(std::move(words), kBytes, most)) {
    merges.push_back({tokens[left], tokens[right]});
    tokens.push_back(tokens[left] + tokens[right]);
  }
  return tokenizer_json(tokens, merges, state_->place).dump(1) + "\n";
}

}  // namespace qkv
