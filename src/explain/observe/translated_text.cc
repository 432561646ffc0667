// A text and its translation as the attentions of an encoder-decoder model see them.
#include "qkv/explain/translated_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/mathematics.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/token_names.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/layers/sequences.h"

namespace qkv {
namespace {

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
      const bool begins = alone || special || text.starts_with(' ');
      const std::string instead = text.empty() ? label_of(tokenizer.token_of(id)) : kBlank;
      tokens.push_back((begins ? "" : kPieceMark) + (shown.empty() ? instead : shown));
      marks.push_back(special ? 1 : 0);
      if (begins) words.words.emplace_back();
      words.words.back() += special ? tokens.back() : shown;  // a token may be a space, or part of a character
      words.word_of.push_back(std::ssize(words.words) - 1);
      alone = special;
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& word = words.words[static_cast<std::size_t>(words.word_of[i])];
      if (word.empty()) word = tokens[i];
    }
    if (!marks.empty() && marks.back() != 0) tokens.back() = "(end)";
    if (marks.size() > 1 && marks.front() != 0) tokens.front() = "(start)";
  }

  std::vector<std::string> tokens;
  std::vector<std::uint8_t> marks;  // 1 for special tokens
  TokenWords words;
};

// What begins or ends a text is no word of it.
void leave_out_ends(Pieces& text) {
  auto& [words, word_of] = text.words;
  if (text.marks.back() != 0) {
    words.pop_back();
    word_of.back() = -1;
  }
  if (!words.empty() && text.marks.front() != 0) {
    words.erase(words.begin());
    for (std::int64_t& word : word_of) --word;
  }
}

enum Sequence : std::size_t { kSource, kTarget, kRead };

AttentionSite site_of(const EncoderDecoderAttention& own) {
  using Place = EncoderDecoderAttention::Place;
  AttentionSite site{.name = {},
                     .before = own.before,
                     .after = own.after,
                     .layers = own.layers,
                     .heads = own.heads,
                     .model_dim = own.model_dim,
                     .score = own.score};
  const auto name = [&](const char* short_name, const char* title, const char* caption) {
    site.name = short_name;
    site.title = title;
    site.caption = caption;
  };
  switch (own.place) {
    case Place::encoder:
      name("encoder", "Encoder self-attention", "source tokens attend to source tokens");
      site.queries = site.keys = kSource;
      break;
    case Place::decoder:
      name("decoder", "Masked decoder self-attention", "tokens read attend to those before them");
      site.queries = site.keys = kRead;
      site.causal = true;
      break;
    case Place::memory:
      name("encoder_decoder", "Encoder-decoder attention", "tokens written attend to source tokens");
      site.queries = kTarget;
      site.keys = kSource;
      break;
  }
  return site;
}

// Of each token of the target: its probability, and those of the most probable tokens.
std::vector<WrittenToken> written(const Tensor& logits, std::span<const std::int32_t> target,
                                  const Tokenizer& tokenizer) {
  constexpr std::size_t kCandidates = 5;
  const auto vocab = static_cast<std::size_t>(logits.size(1));
  std::vector<WrittenToken> all;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const std::span row(logits.data<float>() + i * vocab, vocab);
    const double sum = log_sum_exp(row);
    const auto probability = [&](std::int32_t id) {
      const double logit = static_cast<double>(row[static_cast<std::size_t>(id)]);
      const std::string text = tokenizer.decode(std::span(&id, 1));
      const bool is_seen = text.find_first_not_of(' ') != std::string::npos;
      return TokenProbability{is_seen ? text : label_of(tokenizer.token_of(id)), id, exp(logit - sum)};
    };
    WrittenToken& token = all.emplace_back(probability(target[i]));
    std::vector<TokenLogit> largest(std::min(kCandidates, vocab));
    largest.resize(largest_logits(row, largest));
    for (const TokenLogit& one : largest) token.candidates.push_back(probability(one.token));
  }
  return all;
}

Translation written_by(const Translator& translator, const std::string& text, TranslateOptions options) {
  options.split = false;  // one run of the model is explained
  return translator.translate(text, options);
}

}  // namespace

TranslatedText::TranslatedText(const Translator& translator, const std::string& text, const TranslateOptions& options,
                               LeftOut left_out)
    : TranslatedText(translator, text, written_by(translator, text, options), std::move(left_out), options.stop) {}

TranslatedText::TranslatedText(const Translator& translator, const std::string& text, const Translation& translation,
                               LeftOut left_out, std::stop_token stop)
    : translator_(translator), options_{.stop = std::move(stop)} {
  const EncoderDecoder& model = translator.model();
  require(!model.attentions().empty(), "the model has no attention: its decoder sees one vector of the whole source");
  require(!translation.ids.empty(), "the text has no tokens");
  const EncoderDecoderTokens config = model.tokens();
  std::vector<AttentionSite> sites;
  for (const EncoderDecoderAttention& own : model.attentions()) sites.push_back(site_of(own));
  const std::size_t aligned = sites.size() - 1;
  batch_.source = translator.tokenizer().encode(text, {.max_length = static_cast<std::size_t>(config.positions)}).ids;
  batch_.target = translation.ids;
  batch_.source_offsets = offsets_of(std::vector<std::int64_t>{std::ssize(batch_.source)});
  batch_.target_offsets = offsets_of(std::vector<std::int64_t>{std::ssize(batch_.target)});
  std::vector<std::int32_t> read_ids = {config.start};
  read_ids.insert(read_ids.end(), batch_.target.begin(), batch_.target.end() - 1);

  const Pieces read(translator.target_tokenizer(), read_ids);
  Pieces source(translator.tokenizer(), batch_.source), target(translator.target_tokenizer(), batch_.target);
  leave_out_ends(source);
  leave_out_ends(target);
  attentions_ = {
      .sequences = {{"source", "The encoder reads:  ", source.tokens, source.marks, batch_.source, source.words,
                     "encoder."},
                    {"target", "and writes:  ", target.tokens, target.marks, batch_.target, target.words},
                    {"read", "The decoder reads:  ", read.tokens, read.marks, read_ids, read.words, "decoder."}},
      .sites = std::move(sites),
      .input = fmt::format("\"{}\" -> \"{}\"", text, translation.text),
      .alignment = Alignment{.source_text = text,
                             .target_text = translation.text,
                             .source = source.words,
                             .target = target.words,
                             .site = aligned,
                             .cut = translation.cut},
      .left_out = std::move(left_out)};
  attentions_.alignment->written = written(logits({}, nullptr), batch_.target, translator.target_tokenizer());
}

Tensor TranslatedText::logits(const LeftOut& more, Observer* observer) const {
  using Place = EncoderDecoderAttention::Place;
  const LeftOutMasks masks(attentions_, more);
  const std::vector<EncoderDecoderAttention> own = translator_.model().attentions();
  EncoderDecoderOptions options = options_;
  for (std::size_t s = 0; s < own.size(); ++s) {
    auto& [encoder, decoder, memory] = options.masks;
    (own[s].place == Place::encoder ? encoder : own[s].place == Place::decoder ? decoder : memory) = masks.of(s);
  }
  return translator_.model().logits(batch_, options, observer);
}

Outcome TranslatedText::outcome(const LeftOut& more) const {
  const Tensor rows = logits(more, nullptr);
  const auto vocab = static_cast<std::size_t>(rows.size(1));
  Outcome found;
  for (std::size_t i = 0; i < batch_.target.size(); ++i) {
    const std::span row(rows.data<float>() + i * vocab, vocab);
    found.log_probabilities.push_back(static_cast<double>(row[static_cast<std::size_t>(batch_.target[i])]) -
                                      log_sum_exp(row));
  }
  return found;
}

void TranslatedText::run_backward(std::int64_t written, Observer& observer) const {
  const auto& [keys, heads] = attentions_.left_out;
  require(keys.empty() && heads.empty(), "gradients are those of the whole model: leave nothing out");
  translator_.observe_gradients(batch_, written, observer);
}

}  // namespace qkv
