// The heads of an encoder-decoder model at work on one text and its translation.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "explain/head_trace.h"
#include "qkv/explain/explain_translation.h"
#include "qkv/layers/sequences.h"

namespace qkv {
namespace {

// What names the intermediates of each attention, before and after the number of the layer.
struct Scope {
  const char* before;
  const char* after;
};

Scope scope_of(AttentionSite attention) {
  switch (attention) {
    case AttentionSite::encoder:
      return {"encoder.layers.", "."};
    case AttentionSite::decoder:
      return {"decoder.layers.", ".self."};
    case AttentionSite::encoder_decoder:
      break;
  }
  return {"decoder.layers.", ".memory."};
}

const char* name_of(AttentionSite attention) {
  switch (attention) {
    case AttentionSite::encoder:
      return "Encoder self-attention";
    case AttentionSite::decoder:
      return "Masked decoder self-attention";
    case AttentionSite::encoder_decoder:
      break;
  }
  return "Encoder-decoder attention";
}

// Tokens as text, and the words that they form.
struct Pieces {
  Pieces(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
    DecodeStream stream(tokenizer);
    bool alone = true;  // what comes next continues no word
    for (const std::int32_t id : ids) {
      const std::string text = stream.put(id);
      const std::size_t begin = text.find_first_not_of(' ');
      const bool special = tokenizer.decode(std::span(&id, 1)).empty() && text.empty();
      const std::string shown = begin == std::string::npos ? "" : text.substr(begin);
      names.push_back(shown.empty() ? tokenizer.token_of(id) : shown);
      marks.push_back(special ? 1 : 0);
      if (alone || special || text.starts_with(' ')) words.emplace_back();
      words.back() += special ? names.back() : shown;  // a token may be a space, or part of a character
      word_of.push_back(static_cast<std::int64_t>(words.size()) - 1);
      alone = special;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::string& word = words[static_cast<std::size_t>(word_of[i])];
      if (word.empty()) word = names[i];
    }
  }

  std::vector<std::string> names;
  std::vector<std::uint8_t> marks;  // 1 for special tokens
  std::vector<std::string> words;
  std::vector<std::int64_t> word_of;  // each token
};

// A text, its translation, and the run of the model over both.
struct Run {
  Run(const Translator& translator, const std::string& text, const TranslateOptions& options)
      : model(translator.model()),
        tokenizer(translator.tokenizer()),
        target_tokenizer(translator.target_tokenizer()),
        stop(options.stop) {
    TranslateOptions whole = options;
    whole.split = false;  // one run of the model is explained
    translation = translator.translate(text, whole);
    if (translation.ids.empty()) throw std::invalid_argument("explain: the text has no tokens");
    const auto positions = static_cast<std::size_t>(model.config().positions);
    batch.source = tokenizer.encode(text, {.max_length = positions}).ids;
    batch.target = translation.ids;
    batch.source_offsets = offsets_of(std::vector<std::int64_t>{static_cast<std::int64_t>(batch.source.size())});
    batch.target_offsets = offsets_of(std::vector<std::int64_t>{static_cast<std::int64_t>(batch.target.size())});
    read = {model.config().start};
    read.insert(read.end(), batch.target.begin(), batch.target.end() - 1);
  }

  void observe(Listener::Listen listen) const {
    Listener listener(std::move(listen));
    model.logits(batch, {.stop = stop}, &listener);
  }

  const Marian& model;
  const Tokenizer &tokenizer, &target_tokenizer;
  std::stop_token stop;
  Translation translation;
  PairBatch batch;
  std::vector<std::int32_t> read;
};

// Adds weights [target tokens, heads, source tokens] to those of words.
void add_weights(const TensorView& weights, const Pieces& source, const Pieces& target, double factor, Tensor& words) {
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  for (std::int64_t i = 0; i < weights.size(0); ++i) {
    const std::int64_t word = target.word_of[static_cast<std::size_t>(i)];
    const auto tokens = std::count(target.word_of.begin(), target.word_of.end(), word);
    double* row = words.data<double>() + word * words.size(1);
    for (std::int64_t head = 0; head < weights.size(1); ++head) {
      for (const std::int64_t source_word : source.word_of) {
        row[source_word] += *weight++ * factor / static_cast<double>(tokens);
      }
    }
  }
}

}  // namespace

TranslationSurvey survey_translation(const Translator& translator, const std::string& text,
                                     const TranslationSurveyOptions& options) {
  const Run run(translator, text, options.translate);
  const MarianConfig& config = run.model.config();
  const Pieces source(run.tokenizer, run.batch.source), target(run.target_tokenizer, run.batch.target),
      read(run.target_tokenizer, run.read);
  TranslationSurvey survey{.source_text = text,
                           .target_text = run.translation.text,
                           .source = source.names,
                           .target = target.names,
                           .read = read.names,
                           .source_words = source.words,
                           .target_words = target.words,
                           .cut = run.translation.cut};
  // What ended the translation, or began it because it had to, is no word of it.
  std::vector<std::string>& target_words = survey.target_words;
  if (target.marks.back() != 0) target_words.pop_back();
  const std::int64_t first = !target_words.empty() && target.marks.front() != 0 ? 1 : 0;
  target_words.erase(target_words.begin(), target_words.begin() + first);
  const auto size = [](const std::vector<std::string>& list) { return static_cast<std::int64_t>(list.size()); };
  Tensor word_weights = Tensor::zeros({size(target.words), size(source.words)}, Dtype::f64);

  const auto keep = [&](AttentionSite attention, const Pieces& keys, std::vector<HeadSurvey::Entry>& entries,
                        std::string_view name, const TensorView& weights) {
    const auto layer = static_cast<std::int64_t>(entries.size()) / weights.size(1);
    const auto [before, after] = scope_of(attention);
    if (name != fmt::format("{}{}{}weights", before, layer, after)) return false;
    for (std::int64_t head = 0; head < weights.size(1); ++head) {
      entries.push_back({{layer, head}, summarize_head(weights.select(1, head), keys.marks), {}});
      if (options.keep_weights) entries.back().weights = part_of(weights, head);
    }
    return true;
  };
  const double mean = 1 / static_cast<double>(config.decoder_layers * config.decoder_heads);
  run.observe([&](std::string_view name, const TensorView& value) {
    if (!name.ends_with(".weights")) return;
    if (keep(AttentionSite::encoder_decoder, source, survey.encoder_decoder, name, value)) {
      add_weights(value, source, target, mean, word_weights);
    } else if (!keep(AttentionSite::encoder, source, survey.encoder, name, value)) {
      keep(AttentionSite::decoder, read, survey.decoder, name, value);
    }
  });
  survey.word_weights = Tensor::copy(word_weights.view().slice(0, first, first + size(target_words)));
  return survey;
}

HeadTrace trace_translation(const Translator& translator, const std::string& text, AttentionSite attention,
                            const HeadIndex& index, const TranslateOptions& options) {
  const MarianConfig& config = translator.model().config();
  const bool encoder = attention == AttentionSite::encoder;
  HeadTrace trace;
  trace.heads = encoder ? config.encoder_heads : config.decoder_heads;
  check_index(index, encoder ? config.encoder_layers : config.decoder_layers, trace.heads);
  const Run run(translator, text, options);
  const Pieces source(run.tokenizer, run.batch.source), target(run.target_tokenizer, run.batch.target),
      read(run.target_tokenizer, run.read);
  trace.title = fmt::format("{}, layer {}, head {}: \"{}\" -> \"{}\"", name_of(attention), index.layer, index.head,
                            text, run.translation.text);
  trace.index = index;
  trace.model_dim = config.model_dim;
  trace.tokens = encoder ? source.names : attention == AttentionSite::decoder ? read.names : target.names;
  const Pieces& keys = attention == AttentionSite::decoder ? read : source;
  trace.keys = keys.names;
  const auto [before, after] = scope_of(attention);
  const std::string scope = fmt::format("{}{}{}", before, index.layer, after);
  run.observe([&](std::string_view name, const TensorView& value) { keep_part(trace, scope, name, value); });
  complete(trace, keys.marks);
  return trace;
}

}  // namespace qkv
