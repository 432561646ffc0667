// A prompt and what was written behind it as the attention of a language model sees them.
#include "qkv/explain/written_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/written_tokens.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv {
namespace {

enum Part : std::size_t { kTokensRead, kTokensWritten };

AttentionSite site_of(const LanguageModelConfig& config) {
  AttentionSite site{.name = "attention",
                     .caption = "each token attends to itself and to those before it, and writes the next one",
                     .before = "layers.",
                     .after = ".",
                     .layers = std::ssize(config.layers),
                     .heads = config.layers.front().heads,
                     .kv_heads = config.layers.front().kv_heads,
                     .model_dim = config.model_dim,
                     .causal = true,
                     .queries = kTokensRead,
                     .keys = kTokensRead};
  for (const TransformerLayerConfig& layer : config.layers) {
    const std::int64_t head_dim = layer.head_dim > 0 ? layer.head_dim : layer.model_dim / layer.heads;
    site.scales.push_back(layer.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim))));
    site.soft_cap = layer.soft_cap;
    site.windows.push_back(layer.window ? Mask::window(layer.window->left, layer.window->right) : Mask());
  }
  return site;
}

std::string text_of(const Tokenizer* tokenizer, std::span<const std::int32_t> ids) {
  if (tokenizer == nullptr) return fmt::format("#{}", fmt::join(ids, " #"));
  std::vector<std::int32_t> known;
  std::ranges::copy_if(ids, std::back_inserter(known), [&](std::int32_t id) { return tokenizer->contains(id); });
  return tokenizer->decode(known);
}

// The explained units are tokens: each is a word, except those before the first one.
TokenWords each_a_word(const std::vector<std::string>& tokens, std::size_t first) {
  TokenWords words;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    words.word_of.push_back(i < first ? -1 : std::ssize(words.words));
    if (i >= first) words.words.push_back(tokens[i]);
  }
  return words;
}

// The text of the tokens after the prompt, with the blank that separates both, if there is one.
std::string text_behind(const std::string& prompt_text, const Tokenizer* tokenizer, std::span<const std::int32_t> ids,
                        std::size_t prompt) {
  if (tokenizer != nullptr) {
    const std::string all = text_of(tokenizer, ids);
    if (all.starts_with(prompt_text)) return all.substr(prompt_text.size());
  }
  return text_of(tokenizer, ids.subspan(prompt));
}

// Calls `read` with the output of each layer, at no further cost.
class LayerOutputs : public Observer {
 public:
  explicit LayerOutputs(const std::function<void(const TensorView&)>& read) : read_(read) {}
  bool wants(std::string_view name) const override { return name.ends_with(".feed_forward_norm"); }
  void receive(std::string_view name, const TensorView& value) override {
    if (wants(name)) read_(value);
  }

 private:
  std::function<void(const TensorView&)> read_;
};

}  // namespace

WrittenText::WrittenText(const LanguageModel& model, const Tokenizer* tokenizer, const std::vector<std::int32_t>& ids,
                         const WrittenTextOptions& options, LeftOut left_out)
    : model_(model), options_(options.run) {
  const std::size_t prompt = options.prompt, first = options.explain_prompt ? 1 : prompt;  // explained
  require(prompt > 0 && prompt < ids.size(), "{} of {} tokens are a prompt; it needs a token, and one must be written",
          prompt, ids.size());
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < model.config().vocab, "id {} is not in a vocabulary of {}", id, model.config().vocab);
  }
  read_.assign(ids.begin(), ids.end() - 1);
  output_.assign(ids.begin() + 1, ids.end());
  const TokenPieces all(tokenizer, ids);
  const auto last = std::ssize(ids) - 1;
  const std::vector<std::string> read(all.tokens.begin(), all.tokens.begin() + last),
      output(all.tokens.begin() + 1, all.tokens.end());
  const std::vector<std::uint8_t> read_marks(all.marks.begin(), all.marks.begin() + last),
      output_marks(all.marks.begin() + 1, all.marks.end());
  const TokenWords read_words = each_a_word(read, 0), output_words = each_a_word(output, first - 1);
  const std::string source_text = text_of(tokenizer, std::span(ids).first(prompt));
  const std::string output_text = text_behind(source_text, tokenizer, ids, prompt);
  attentions_ = {.sequences = {{"read", "The model reads:  ", read, read_marks, read_, read_words, ""},
                               {"target", "and writes behind each:  ", output, output_marks, output_, output_words}},
                 .sites = {site_of(model.config())},
                 .input = fmt::format("\"{}\" -> \"{}\"", source_text, output_text),
                 .alignment = Alignment{.source_text = source_text,
                                        .output_text = output_text,
                                        .source = read_words,
                                        .output = output_words,
                                        .output_sequence = kTokensWritten,
                                        .is_continuation = true},
                 .left_out = std::move(left_out)};
  std::vector<std::vector<LayerGuess>> guesses(output_.size());
  LayerOutputs outputs([&](const TensorView& rows) {
    const Tensor logits = model_.read_out(rows.slice(0, static_cast<std::int64_t>(first) - 1, rows.size(0)), options_);
    for (std::size_t i = first - 1; i < output_.size(); ++i) {
      const std::span row = row_of(logits, i + 1 - first);
      const double sum = log_sum_exp(row);
      TokenLogit best{0, 0};
      largest_logits(row, std::span(&best, 1));
      guesses[i].push_back({.best = probability_of(best.token, row, sum, tokenizer),
                            .written = probability_of(output_[i], row, sum, tokenizer).probability});
    }
  });
  std::vector<WrittenToken>& written = attentions_.alignment->written;
  written = written_tokens(logits({}, &outputs), output_, tokenizer);
  for (std::size_t i = 0; i < written.size(); ++i) written[i].layers = std::move(guesses[i]);
}

Tensor WrittenText::logits(const LeftOut& more, Observer* observer) const {
  const LeftOutMasks masks(attentions_, more);
  LanguageModelOptions options = options_;
  options.masks = masks.of(0);
  return model_.logits(std::span(&read_, 1), options, observer);
}

Outcome WrittenText::outcome(const LeftOut& more) const {
  return {.log_probabilities = log_probabilities(logits(more, nullptr), output_)};
}

void WrittenText::run_backward(std::int64_t written, Observer& observer) const {
  check_whole(attentions_);
  model_.observe_gradients(read_, written + 1, output_[static_cast<std::size_t>(written)], observer);
}

}  // namespace qkv
