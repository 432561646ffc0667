// Reads generation_config.json into GenerateOptions, and refuses what is not supported.
#include "pipelines/generation_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "io/json_document.h"

namespace qkv::inline pipelines {
namespace {

constexpr std::int64_t kMaxLength = 1 << 20;

// Unsupported ways of generating, by the value that switches each off.
struct Unknown {
  const char* name;
  double off;
};
constexpr Unknown kUnknown[] = {
    {"encoder_no_repeat_ngram_size", 0},
    {"diversity_penalty", 0},
    {"num_beam_groups", 1},
    {"encoder_repetition_penalty", 1},
};
constexpr const char* kUnknownSwitches[] = {"do_sample", "remove_invalid_values"};
constexpr const char* kUnknownValues[] = {"suppress_tokens", "begin_suppress_tokens", "sequence_bias",
                                          "exponential_decay_length_penalty"};

void refuse_unknown(const io::JsonValue& root) {
  for (const auto& [name, off] : kUnknown) {
    const auto value = root.find(name);
    if (value && value->number() != off) value->refuse(fmt::format("must be {}; other values are not supported", off));
  }
  for (const char* name : kUnknownSwitches) {
    const auto value = root.find(name);
    if (value && value->boolean()) value->refuse("is not supported; set it to false");
  }
  for (const char* name : kUnknownValues) {
    if (const auto value = root.find(name)) value->refuse("is not supported; remove it or set it to null");
  }
}

std::vector<std::int32_t> tokens_of(const io::JsonValue& list, std::int64_t vocab) {
  std::vector<std::int32_t> tokens;
  for (const io::JsonValue& id : list.elements()) tokens.push_back(static_cast<std::int32_t>(id.integer(0, vocab - 1)));
  if (tokens.empty()) list.refuse("must have at least one token");
  return tokens;
}

// A word that is an end alone does not forbid the end.
std::vector<std::vector<std::int32_t>> forbidden_tokens(const io::JsonValue& words, std::span<const std::int32_t> ends,
                                                        std::int64_t vocab) {
  std::vector<std::vector<std::int32_t>> runs;
  for (const io::JsonValue& word : words.elements()) {
    std::vector<std::int32_t> run = tokens_of(word, vocab);
    const bool is_end = run.size() == 1 && std::find(ends.begin(), ends.end(), run.front()) != ends.end();
    if (!is_end) runs.push_back(std::move(run));
  }
  return runs;
}

EarlyStopping early_stopping(const io::JsonValue& value) {
  if (!value.is_string()) return value.boolean() ? EarlyStopping::yes : EarlyStopping::no;
  if (value.string() != "never") value.refuse("must be true, false or \"never\"");
  return EarlyStopping::never;
}

}  // namespace

Generation read_generation(const std::string& folder, std::int64_t vocab) {
  std::string path = folder + "/generation_config.json";
  if (!std::filesystem::exists(path)) path = folder + "/config.json";
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  refuse_unknown(root);

  const auto token = [&](const char* name) { return static_cast<std::int32_t>(root[name].integer(0, vocab - 1)); };
  Generation generation;
  GenerateOptions& options = generation.options;
  options.start = token("decoder_start_token_id");
  const io::JsonValue ends = root["eos_token_id"];
  options.ends = ends.is_list() ? tokens_of(ends, vocab) : std::vector{token("eos_token_id")};
  if (const auto words = root.find("bad_words_ids")) options.forbidden = forbidden_tokens(*words, options.ends, vocab);
  if (root.find("forced_eos_token_id")) options.forced_end = token("forced_eos_token_id");
  if (root.find("forced_bos_token_id")) options.forced_begin = token("forced_bos_token_id");
  if (const auto beams = root.find("num_beams")) options.beams = beams->integer(1, kMaxBeams);
  if (const auto size = root.find("no_repeat_ngram_size")) options.no_repeat_ngram = size->integer(0, kMaxLength);
  // max_length and min_length count the start token, and min_length the end token, too.
  if (const auto length = root.find("max_length")) options.max_length = length->integer(2, kMaxLength) - 1;
  if (const auto length = root.find("min_length")) {
    options.min_length = std::max<std::int64_t>(0, length->integer(0, kMaxLength) - 1);
  }
  if (const auto length = root.find("min_new_tokens")) options.min_length = length->integer(0, kMaxLength);
  if (const auto length = root.find("max_new_tokens")) options.max_length = length->integer(1, kMaxLength);
  if (const auto penalty = root.find("length_penalty")) options.length_penalty = penalty->number();
  if (const auto penalty = root.find("repetition_penalty")) {
    options.repetition_penalty = penalty->number();
    if (!(options.repetition_penalty > 0)) penalty->refuse("must be above 0");
  }
  if (const auto renormalize = root.find("renormalize_logits")) options.renormalize = renormalize->boolean();
  if (const auto early = root.find("early_stopping")) options.early_stopping = early_stopping(*early);
  if (const auto threshold = root.find("unsure_below")) generation.unsure_below = threshold->number();
  return generation;
}

}  // namespace qkv::inline pipelines
