// Makes a tokenizer.json of the tokens, merges and scores in a GGUF file. Its text is put together piece by piece: a
// tree of JSON values would take several times the memory of the file.
#include "text/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stop.h"
#include "io/files/text.h"
#include "text/stages/split.h"
#include "text/stages/vocabulary.h"

namespace qkv::text {
namespace {

using Json = nlohmann::json;

const std::string kGgml = "tokenizer.ggml.";
const std::string kMetaspace = "\xE2\x96\x81";
constexpr std::size_t kMostTokens = std::size_t{1} << 19;
// A tokenizer.json of 256,000 tokens and their merges has 15 million bytes.
constexpr std::size_t kLongestJson = std::size_t{20} << 20;

// Types of tokens, with the numbers of the format.
constexpr std::uint8_t kNormalToken = 1, kUnknownToken = 2, kControlToken = 3, kUserToken = 4, kLastTokenType = 6;

std::string quoted(const std::string& text) { return Json(text).dump(); }

class GgufTokens {
 public:
  explicit GgufTokens(io::GgufFile& file) : file_(file) {
    const std::string key = kGgml + "tokens";
    const std::size_t count = file.count(key);
    if (count > kMostTokens) file.refuse(key, fmt::format("has {} elements, must have at most {}", count, kMostTokens));
    std::vector<Vocabulary::Entry> entries;
    entries.reserve(count);
    file.for_each_string(key, [&](std::size_t id, std::string_view token) {
      entries.push_back({std::string(token), static_cast<std::int32_t>(id)});
    });
    try {
      vocabulary_ = Vocabulary(std::move(entries));
    } catch (const std::invalid_argument& broken) {
      file.refuse(key, broken.what());
    }
    read_types();
  }

  // Refuses an array that has not one element for each token.
  void check_count(const std::string& key) const {
    if (file_.count(key) == size()) return;
    file_.refuse(key, fmt::format("has {} elements, must have {}, one for each token", file_.count(key), size()));
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t size() const { return types_.size(); }
  std::uint8_t type(std::size_t id) const { return types_[id]; }
  const std::string& token(std::size_t id) const { return vocabulary_.find(static_cast<std::int32_t>(id))->token; }
  // The token that a key names by its id.
  const Vocabulary::Entry& named(const std::string& name) const {
    const std::int64_t id = file_.integer(kGgml + name, 0, static_cast<std::int64_t>(size()) - 1);
    return *vocabulary_.find(static_cast<std::int32_t>(id));
  }
  bool is_normal(std::string_view token) const {
    const Vocabulary::Entry* found = vocabulary_.find(token);
    return found != nullptr && type(static_cast<std::size_t>(found->id)) == kNormalToken;
  }

 private:
  void read_types() {
    types_.assign(vocabulary_.entries().size(), kNormalToken);
    const std::string key = kGgml + "token_type";
    if (!file_.has(key)) return;
    check_count(key);
    file_.for_each_integer(key, [&](std::size_t id, std::int64_t type) {
      if (type < kNormalToken || type > kLastTokenType) {
        file_.refuse(key, fmt::format("element {} is {}, must be {} to {}", id, type, kNormalToken, kLastTokenType));
      }
      types_[id] = static_cast<std::uint8_t>(type);
    });
  }

  io::GgufFile& file_;
  Vocabulary vocabulary_;
  std::vector<std::uint8_t> types_;
};

bool boolean_or(io::GgufFile& file, const std::string& name, bool otherwise) {
  return file.has(kGgml + name) ? file.boolean(kGgml + name) : otherwise;
}

// Tokens that are searched for in the text itself.
Json added_tokens(const GgufTokens& tokens) {
  Json added = Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::uint8_t type = tokens.type(id);
    if (type != kControlToken && type != kUnknownToken && type != kUserToken) continue;
    added.push_back({{"id", id},
                     {"content", tokens.token(id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != kUserToken}});
  }
  return added;
}

Json sequence(const char* of, Json steps) { return {{"type", "Sequence"}, {of, std::move(steps)}}; }

// The tokens that begin and end each text, if the file asks for them.
Json post_processor(io::GgufFile& file, const GgufTokens& tokens, bool begins_otherwise) {
  Json pieces = Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}), named = Json::object();
  const auto add = [&](const std::string& key, Json::iterator before) {
    const auto& [token, id] = tokens.named(key);
    pieces.insert(before, Json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    named[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  if (boolean_or(file, "add_bos_token", begins_otherwise)) add("bos_token_id", pieces.begin());
  if (boolean_or(file, "add_eos_token", false)) add("eos_token_id", pieces.end());
  if (named.empty()) return nullptr;
  return {{"type", "TemplateProcessing"}, {"single", pieces}, {"pair", pieces}, {"special_tokens", named}};
}

// A tokenizer.json but for its vocabulary and merges.
Json frame(const GgufTokens& tokens) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false}}}};
}

using AddMerge = std::function<void(const std::string& json)>;

// The frame with the vocabulary and with the merges that `for_each_merge` adds.
std::string filled(io::GgufFile& file, Json frame, const GgufTokens& tokens,
                   const std::function<void(const AddMerge&)>& for_each_merge) {
  Json model = std::move(frame["model"]);
  frame.erase("model");
  std::string text = frame.dump(), list;
  text.pop_back();
  text += ",\"model\":" + model.dump();
  text.pop_back();
  StopTurns turns;
  const auto add = [&](const std::string& json) {
    turns.next();
    text += std::exchange(list, ",") + json;
    if (text.size() > kLongestJson) {
      file.refuse(kGgml + "tokens", fmt::format("makes a tokenizer.json of more than {} bytes", kLongestJson));
    }
  };
  text += ",\"vocab\":{";
  for (const auto& [token, id] : tokens.vocabulary().entries()) add(fmt::format("{}:{}", quoted(token), id));
  text += "},\"merges\":[";
  list.clear();
  for_each_merge(add);
  return text + "]}}\n";
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json split_by(std::string_view expression) {
  return sequence(
      "pretokenizers",
      {{{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}},
       byte_level(false)});
}

// By the names that llama.cpp gives to pre-tokenizers of byte-level vocabularies.
void set_pre_tokenizer(io::GgufFile& file, Json& tokenizer) {
  const std::string key = kGgml + "pre", name = file.string(key);
  if (name == "gpt-2") {
    tokenizer["pre_tokenizer"] = byte_level(true);
  } else if (name == "smollm") {
    tokenizer["pre_tokenizer"] =
        sequence("pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
  } else if (name == "llama-bpe") {
    tokenizer["pre_tokenizer"] = split_by(kGpt4Expression);
    tokenizer["model"]["ignore_merges"] = true;
  } else if (name == "qwen2") {
    tokenizer["normalizer"] = {{"type", "NFC"}};
    tokenizer["pre_tokenizer"] = split_by(kQwenExpression);
  } else {
    file.refuse(key, fmt::format("is {}; supported: gpt-2, smollm, llama-bpe, qwen2", io::quote(name)));
  }
}

std::string byte_level_tokenizer(io::GgufFile& file, const GgufTokens& tokens) {
  Json tokenizer = frame(tokens);
  set_pre_tokenizer(file, tokenizer);
  tokenizer["decoder"] = byte_level(true);
  tokenizer["post_processor"] = post_processor(file, tokens, file.string(kGgml + "pre") == "llama-bpe");
  return filled(file, std::move(tokenizer), tokens, [&](const AddMerge& add) {
    file.for_each_string(kGgml + "merges",
                         [&](std::size_t, std::string_view merge) { add(quoted(std::string(merge))); });
  });
}

// Where a token can be cut into two, the longest beginning first.
std::vector<std::size_t> cuts_of(const std::string& token, const GgufTokens& tokens) {
  std::vector<std::size_t> cuts;
  const std::string_view whole = token;
  for (std::size_t cut = 0; cut < token.size();) {
    cut += io::size_of_first(whole.substr(cut));
    if (cut < token.size() && tokens.is_normal(whole.substr(0, cut)) && tokens.is_normal(whole.substr(cut))) {
      cuts.insert(cuts.begin(), cut);
    }
  }
  return cuts;
}

// The tokens that others make, those of the highest score first.
std::vector<std::uint32_t> made_tokens(io::GgufFile& file, const GgufTokens& tokens) {
  const std::string key = kGgml + "scores";
  tokens.check_count(key);
  std::vector<float> scores;
  file.for_each_number(key, [&](std::size_t, double score) { scores.push_back(static_cast<float>(score)); });
  const auto score = [&](std::uint32_t id) { return scores[id]; };
  std::vector<std::uint32_t> made;
  StopTurns turns;
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    turns.next();
    if (tokens.type(id) == kNormalToken && !cuts_of(tokens.token(id), tokens).empty()) made.push_back(id);
  }
  std::ranges::sort(made, std::greater<>(), score);
  const auto same = std::ranges::adjacent_find(made, {}, score);
  if (same != made.end()) {
    file.refuse(key, fmt::format("tokens {} and {} share the score {}, so the order of their merges is ambiguous",
                                 io::quote(tokens.token(same[0])), io::quote(tokens.token(same[1])), score(*same)));
  }
  return made;
}

// SentencePiece's byte-pair vocabularies, as Llama 2 has one.
std::string sentence_piece_tokenizer(io::GgufFile& file, const GgufTokens& tokens) {
  const std::vector<std::uint32_t> made = made_tokens(file, tokens);
  Json tokenizer = frame(tokens);
  tokenizer["model"]["unk_token"] = tokens.named("unknown_token_id").token;
  tokenizer["model"]["fuse_unk"] = true;
  tokenizer["model"]["byte_fallback"] = true;
  Json normalizers = Json::array();
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kMetaspace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (boolean_or(file, "add_space_prefix", true)) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMetaspace}});
  tokenizer["normalizer"] = sequence("normalizers", std::move(normalizers));
  tokenizer["decoder"] = sequence("decoders", std::move(decoders));
  tokenizer["post_processor"] = post_processor(file, tokens, true);
  return filled(file, std::move(tokenizer), tokens, [&](const AddMerge& add) {
    for (const std::uint32_t id : made) {
      const std::string& token = tokens.token(id);
      for (const std::size_t cut : cuts_of(token, tokens)) {
        add(fmt::format("[{},{}]", quoted(token.substr(0, cut)), quoted(token.substr(cut))));
      }
    }
  });
}

}  // namespace

std::string gguf_tokenizer_json(io::GgufFile& file) {
  const std::string key = kGgml + "model", model = file.string(key);
  if (model != "gpt2" && model != "llama") {
    file.refuse(key, fmt::format("is {}; supported: gpt2, llama", io::quote(model)));
  }
  const GgufTokens tokens(file);
  return model == "gpt2" ? byte_level_tokenizer(file, tokens) : sentence_piece_tokenizer(file, tokens);
}

}  // namespace qkv::text
