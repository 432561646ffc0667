// Generator: tokenizes prompts, lets the model write behind them, some together, and detokenizes as it does.
#include "qkv/pipelines/generator.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/refuse.h"
#include "models/gguf_folder.h"
#include "pipelines/chat_template.h"
#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// Rows that are written together, prompts times beams, and tokens of prompts that are read together.
constexpr std::int64_t kGeneratedRows = 128, kPromptTokens = 1 << 15;

constexpr std::int64_t kNewTokens = 256;

// How many tokens may follow a prompt, and how many must.
struct Room {
  std::int64_t most = 0, least = 0;
  auto operator<=>(const Room&) const = default;
};

// Prompts that are written together: they have the same room, and come in the order of their numbers.
struct PromptBatch {
  std::vector<std::size_t> prompts;
  Room room;
};

std::vector<PromptBatch> batches_of(LanguageModel::Prompts prompts, const std::vector<Room>& rooms, std::int64_t rows) {
  std::vector<std::size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rooms[a] > rooms[b]; });
  std::vector<PromptBatch> batches;
  std::int64_t tokens = 0;
  for (const std::size_t i : order) {
    const auto own = std::ssize(prompts[i]);
    const bool fits = !batches.empty() && batches.back().room == rooms[i] &&
                      std::ssize(batches.back().prompts) < rows && tokens + own <= kPromptTokens;
    if (!fits) {
      batches.push_back({{}, rooms[i]});
      tokens = 0;
    }
    batches.back().prompts.push_back(i);
    tokens += own;
  }
  return batches;
}

// The rows of weights of some heads, for each prompt.
class KeptWeights {
 public:
  KeptWeights(std::size_t heads, std::size_t prompts)
      : rows_(prompts, std::vector<std::vector<std::vector<float>>>(heads)) {}

  auto adder() {
    return [this](std::size_t prompt, std::size_t head, std::span<const float> weights) {
      rows_[prompt][head].emplace_back(weights.begin(), weights.end());
    };
  }
  // [rows, keys of the last one] of each head.
  std::vector<Tensor> take(std::size_t prompt) const {
    std::vector<Tensor> all;
    for (const auto& rows : rows_[prompt]) {
      Tensor& own = all.emplace_back(Tensor::zeros({std::ssize(rows), std::ssize(rows.back())}));
      float* to = own.data<float>();
      for (const std::vector<float>& row : rows) {
        std::ranges::copy(row, to);
        to += own.size(1);
      }
    }
    return all;
  }

 private:
  std::vector<std::vector<std::vector<std::vector<float>>>> rows_;
};

}  // namespace

// The text behind a prompt, token by token. What may be the beginning of a stop string is held back.
class Generator::TextWriter {
 public:
  TextWriter(const std::optional<Tokenizer>& tokenizer, std::span<const std::int32_t> prompt,
             std::vector<std::string> stop_strings)
      : tokenizer_(tokenizer), stop_strings_(std::move(stop_strings)) {
    if (!tokenizer) return;
    stream_.emplace(*tokenizer);
    // The text of a token may depend on those before it: whether it begins a text, above all.
    constexpr std::size_t kSeen = 16;
    for (const std::int32_t id : prompt.last(std::min(prompt.size(), kSeen))) detokenize(id);
  }

  // What the text grows by.
  std::string put(std::int32_t id) { return stream_ && !is_stopped_ ? pass(detokenize(id)) : ""; }
  std::string finish() {
    if (!stream_ || is_stopped_) return "";
    std::string rest = pass(stream_->finish());
    if (is_stopped_) return rest;
    rest += held_;
    text_ += held_;
    held_.clear();
    return rest;
  }
  // Whether a stop string has come.
  bool is_stopped() const { return is_stopped_; }
  std::string take() { return std::move(text_); }

 private:
  // Ids without a token are rows of the model that nothing was trained for; they have no text, as in transformers.
  std::string detokenize(std::int32_t id) { return tokenizer_->contains(id) ? stream_->put(id) : ""; }

  std::string pass(const std::string& piece) {
    held_ += piece;
    std::size_t end = std::string::npos;
    for (const std::string& stop : stop_strings_) end = std::min(end, held_.find(stop));
    is_stopped_ = end != std::string::npos;
    std::string given = held_.substr(0, is_stopped_ ? end : held_.size() - held_back());
    held_.erase(0, given.size());
    text_ += given;
    return given;
  }

  // How many of the last bytes may begin a stop string.
  std::size_t held_back() const {
    std::size_t most = 0;
    for (const std::string& stop : stop_strings_) {
      std::size_t length = std::min(stop.size() - 1, held_.size());
      while (length > most && !held_.ends_with(std::string_view(stop).substr(0, length))) --length;
      most = std::max(most, length);
    }
    return most;
  }

  const std::optional<Tokenizer>& tokenizer_;
  std::optional<DecodeStream> stream_;
  std::vector<std::string> stop_strings_;
  std::string text_, held_;
  bool is_stopped_ = false;
};

Generator::Generator(std::string folder, LanguageModel model, std::optional<Tokenizer> tokenizer,
                     GenerateOptions defaults, Lengths lengths, std::vector<std::string> stop_strings)
    : folder_(std::move(folder)),
      model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      chat_(std::make_shared<ChatTemplate>(read_chat_template(folder_))),
      defaults_(std::move(defaults)),
      lengths_(lengths),
      stop_strings_(std::move(stop_strings)) {}

Generator Generator::load(const std::string& folder, WeightStorage storage) {
  const LanguageModelConfig config = LanguageModel::check(folder);
  const std::string tokens = is_gguf(folder) ? folder : folder + "/tokenizer.json";
  std::optional<Tokenizer> tokenizer;
  if (std::filesystem::exists(tokens)) tokenizer = Tokenizer::load(tokens, config.vocab);
  TextGeneration text = read_text_generation(folder, config.vocab);
  return Generator(folder, LanguageModel::load(folder, storage), std::move(tokenizer), std::move(text.options),
                   {text.max_length, text.max_new_tokens, text.min_length, text.min_new_tokens},
                   std::move(text.stop_strings));
}

const Tokenizer& Generator::tokenizer() const {
  if (!tokenizer_) throw FormatError(folder_ + "/tokenizer.json is missing: only ids can be read and written");
  return *tokenizer_;
}

GenerateOptions Generator::search_options(const GeneratorOptions& options) const {
  GenerateOptions search = defaults_;
  search.beams = beams(options);
  search.length_penalty = options.length_penalty.value_or(defaults_.length_penalty);
  search.repetition_penalty = options.repetition_penalty.value_or(defaults_.repetition_penalty);
  if (options.sampling) search.sampling = options.sampling;
  if (options.greedy) search.sampling.reset();
  search.nbest = options.nbest;
  search.threads = options.threads;
  return search;
}

std::int64_t Generator::room(std::int64_t prompt, const GeneratorOptions& options) const {
  const bool given = options.max_new_tokens || options.max_length;
  const auto& max_new = given ? options.max_new_tokens : lengths_.max_new_tokens;
  const auto& max_length = given ? options.max_length : lengths_.max_length;
  std::int64_t most = max_new || max_length ? model_.config().positions : kNewTokens;
  if (max_length && !max_new) most = *max_length - prompt;
  if (max_new) most = *max_new;
  return std::min(std::max<std::int64_t>(most, 1), model_.config().positions - prompt);
}

std::vector<std::vector<GeneratedText>> Generator::generate_ids(LanguageModel::Prompts prompts,
                                                                const GeneratorOptions& options) const {
  const StopScope stop(options.stop);
  GenerateOptions search = search_options(options);
  std::vector<std::string> stop_strings = stop_strings_;
  stop_strings.insert(stop_strings.end(), options.stop_strings.begin(), options.stop_strings.end());
  for (const std::string& text : options.stop_strings)
    refuse_unless(!text.empty(), "generate", "a stop string is empty");
  if (!stop_strings.empty()) tokenizer();
  refuse_unless(search.beams == 1 || (stop_strings.empty() && !options.on_text), "generate",
                "stop strings and on_text need 1 beam, not {}", search.beams);
  refuse_unless(search.beams == 1 || options.heads.empty(), "generate", "weights of heads need 1 beam, not {}",
                search.beams);
  std::vector<Room> rooms;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::int64_t length = std::ssize(prompts[i]);
    refuse_unless(length > 0, "generate", "prompt {} has no tokens", i + 1);
    refuse_unless(length < model_.config().positions, "generate",
                  "prompt {} has {} tokens; the model has {} positions, and writes at least one token", i + 1, length,
                  model_.config().positions);
    rooms.push_back({.most = room(length, options),
                     .least = lengths_.min_new_tokens > 0 ? lengths_.min_new_tokens
                                                          : std::max<std::int64_t>(0, lengths_.min_length - length)});
  }

  std::vector<std::vector<GeneratedText>> results(prompts.size());
  for (const PromptBatch& batch :
       batches_of(prompts, rooms, std::max<std::int64_t>(1, kGeneratedRows / search.beams))) {
    std::vector<std::vector<std::int32_t>> own;
    std::vector<RandomStream> streams;
    std::vector<TextWriter> writers;
    for (const std::size_t i : batch.prompts) {
      own.push_back(prompts[i]);
      streams.push_back({options.stream.line + i, options.stream.part});
      writers.emplace_back(tokenizer_, prompts[i], stop_strings);
    }
    const auto is_end = [&](std::int32_t id) { return std::ranges::find(search.ends, id) != search.ends.end(); };
    const auto give = [&](std::size_t i, const std::string& text) {
      if (options.on_text && !text.empty()) options.on_text(batch.prompts[i], text);
    };
    search.max_length = batch.room.most;
    search.min_length = batch.room.least;
    if (search.beams == 1) {
      search.on_token = [&](std::int64_t sequence, std::span<const std::int32_t> written) {
        const auto i = static_cast<std::size_t>(sequence);
        if (!is_end(written.back())) give(i, writers[i].put(written.back()));
        return !writers[i].is_stopped();
      };
    }
    KeptWeights kept(options.heads.size(), own.size());
    const auto next = model_.next_tokens(
        own, {.chunk = options.chunk, .heads = options.heads, .on_weights = kept.adder(), .threads = options.threads});
    auto found = qkv::generate(*next, own, search, streams);
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (Hypothesis& one : found[i]) {
        TextWriter fresh(tokenizer_, own[i], {});
        TextWriter& writer = search.beams == 1 ? writers[i] : fresh;
        for (std::size_t at = 0; search.beams > 1 && at < one.tokens.size(); ++at) {
          if (!is_end(one.tokens[at])) writer.put(one.tokens[at]);
        }
        give(i, writer.finish());
        const EndOfText end = writer.is_stopped()         ? EndOfText::stop_string
                              : is_end(one.tokens.back()) ? EndOfText::end_token
                                                          : EndOfText::length;
        results[batch.prompts[i]].push_back({.text = writer.take(),
                                             .ids = std::move(one.tokens),
                                             .log_probability = one.log_probability,
                                             .score = one.score,
                                             .end = end,
                                             .weights = kept.take(i)});
      }
    }
  }
  return results;
}

std::vector<std::int32_t> Generator::prompt_ids(const std::string& prompt, PromptForm form) const {
  if (form == PromptForm::text) return tokenizer().encode(prompt).ids;
  return tokenizer()
      .encode(form == PromptForm::chat ? chat_->render(prompt) : prompt, {.add_special_tokens = false})
      .ids;
}

std::vector<std::vector<GeneratedText>> Generator::generate(std::span<const std::string> prompts,
                                                            const GeneratorOptions& options) const {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& prompt : prompts) ids.push_back(prompt_ids(prompt, options.form));
  return generate_ids(ids, options);
}

GeneratedText Generator::generate(const std::string& prompt, const GeneratorOptions& options) const {
  return generate(std::span(&prompt, 1), options).front().front();
}

}  // namespace qkv
