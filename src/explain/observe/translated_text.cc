// A text and its translation as the attentions of an encoder-decoder model see them.
#include "qkv/explain/translated_text.h"

#include <fmt/format.h>

#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/written_tokens.h"
#include "qkv/layers/sequences.h"

namespace qkv {
namespace {

void name_ends(TokenPieces& text) {
  if (!text.marks.empty() && text.marks.back() != 0) text.tokens.back() = "(end)";
  if (text.marks.size() > 1 && text.marks.front() != 0) text.tokens.front() = "(start)";
}

// Tokens that begin or end a text are no words.
void leave_out_ends(TokenPieces& text) {
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

enum Sequence : std::size_t { kSource, kOutput, kRead };

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
      site.queries = kOutput;
      site.keys = kSource;
      break;
  }
  return site;
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

  TokenPieces read(&translator.target_tokenizer(), read_ids), source(&translator.tokenizer(), batch_.source),
      output(&translator.target_tokenizer(), batch_.target);
  for (TokenPieces* one : {&read, &source, &output}) name_ends(*one);
  leave_out_ends(source);
  leave_out_ends(output);
  attentions_ = {
      .sequences = {{"source", "The encoder reads:  ", source.tokens, source.marks, batch_.source, source.words,
                     "encoder."},
                    {"target", "and writes:  ", output.tokens, output.marks, batch_.target, output.words},
                    {"read", "The decoder reads:  ", read.tokens, read.marks, read_ids, read.words, "decoder."}},
      .sites = std::move(sites),
      .input = fmt::format("\"{}\" -> \"{}\"", text, translation.text),
      .alignment = Alignment{.source_text = text,
                             .output_text = translation.text,
                             .source = source.words,
                             .output = output.words,
                             .output_sequence = kOutput,
                             .site = aligned,
                             .cut = translation.cut},
      .left_out = std::move(left_out)};
  attentions_.alignment->written = written_tokens(logits({}, nullptr), batch_.target, &translator.target_tokenizer());
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
  return {.log_probabilities = log_probabilities(logits(more, nullptr), batch_.target)};
}

void TranslatedText::run_backward(std::int64_t written, Observer& observer) const {
  check_whole(attentions_);
  translator_.observe_gradients(batch_, written, observer);
}

}  // namespace qkv
