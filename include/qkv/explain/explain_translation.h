// What an encoder-decoder model attends to while it translates: which source words each target word took most from, and
// the heads of all three attentions. The weights are those of the model's own run over the source and the translation
// that it wrote (qkv/marian.h), seen by an observer.
//
//   Translator translator = Translator::load("models/en-es");
//   std::cout << to_text(survey_translation(translator, "You are welcome"));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/explain/explain_model.h"
#include "qkv/models/translator.h"

namespace qkv {

// The three attentions of a Transformer: encoder self-attention, masked decoder self-attention, and
// encoder-decoder attention.
enum class AttentionSite { encoder, decoder, encoder_decoder };

struct TranslationSurveyOptions {
  bool keep_weights = false;  // of every head
  TranslateOptions translate{};
};

struct TranslationSurvey {
  std::string source_text, target_text;
  std::vector<std::string> source;  // tokens that the encoder reads
  std::vector<std::string> target;  // tokens that the decoder writes
  std::vector<std::string> read;    // tokens that the decoder reads: start, then all of `target` but the last
  std::vector<std::string> source_words, target_words;
  std::int64_t cut = 0;  // tokens at the end of the text that were not read (translator.h)
  // [target words, source words], f64: the weights of encoder-decoder attention, averaged over all layers, all heads
  // and the tokens of the target word, summed over the tokens of the source word.
  Tensor word_weights{};
  std::vector<HeadSurvey::Entry> encoder{}, decoder{}, encoder_decoder{};  // layer by layer
};

// Errors as translate()'s; std::invalid_argument for a text without tokens and for a head that is not there.
TranslationSurvey survey_translation(const Translator& translator, const std::string& text,
                                     const TranslationSurveyOptions& options = {});
// Queries and keys of self-attention are tokens read; a query of encoder-decoder attention is the token written.
HeadTrace trace_translation(const Translator& translator, const std::string& text, AttentionSite attention,
                            const HeadIndex& index, const TranslateOptions& options = {});

// The translation and its words alone.
std::string words_to_text(const TranslationSurvey& survey, const TextStyle& style = {});
// The same, and every head.
std::string to_text(const TranslationSurvey& survey, const TextStyle& style = {});
// One JSON object with all that the text shows, every number in full.
std::string to_json(const TranslationSurvey& survey);

}  // namespace qkv
