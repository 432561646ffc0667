/// \file
/// Translates sentences: tokenizer, encoder-decoder model and search. Reads Hugging Face folders of Marian and BART
/// models, and of recurrent ones.
///
///     Translator translator = Translator::load("models/en-es");
///     std::cout << translator.translate("You are welcome").text;   // De nada
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/decode/generate.h"
#include "qkv/models/encoder_decoder.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

/// Unset options follow the folder's generation_config.json.
struct TranslateOptions {
  std::optional<std::int64_t> beams{};
  std::optional<std::int64_t> max_length{};  ///< new tokens; never more than the model has positions
  std::optional<double> length_penalty{};
  std::optional<Sampling> sampling{};  ///< samples tokens instead of searching
  /// Random stream of the first text of a call; the i-th one draws i lines later, sentence s of a split text s parts
  /// later.
  RandomStream stream{};
  std::int64_t nbest = 1;
  bool split = true;  ///< a text of more tokens than the model has positions is split into sentences
  int threads = 0;    ///< 0: threads()
  std::stop_token stop{};
};

/// For a split text, the n-th best translation joins the n-th best translations of its sentences.
struct Translation {
  std::string text{};
  std::vector<std::int32_t> ids{};        ///< without the start token
  double log_probability = 0, score = 0;  ///< as in generate.h
  bool unsure = false;                    ///< Translator::is_unsure, of one of the sentences if the text was split
  std::int64_t cut = 0;                   ///< tokens of the source that were not read: the model lacks positions
  std::string source{};                   ///< the translated text, or a sentence of it
  std::vector<Translation> sentences{};   ///< none unless the text was split
};

/// Immutable after construction: any number of threads may call the others.
class QKV_API Translator {
 public:
  /// `folder` holds what EncoderDecoder::load reads, generation_config.json (else config.json says how to generate),
  /// and tokenizer.json, which translate() needs, with target_tokenizer.json next to it if each side of the model has
  /// its own vocabulary; without tokenizer.json Marian's source.spm, target.spm and vocab.json (target_vocab.json for
  /// the target side's own), as Tokenizer::load_marian reads them. FormatError, naming the file and the field, for
  /// malformed files and unsupported settings of tokenizing or generating. `storage` as in weights.h.
  static Translator load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// Results do not depend on the other texts or on the number of threads. A text of more tokens than the model has
  /// positions is split; a sentence that is still too long is truncated (Translation::cut). A text without tokens has
  /// an empty translation. FormatError if the folder had no tokenizer.json.
  Translation translate(const std::string& text, const TranslateOptions& options = {}) const;
  std::vector<std::vector<Translation>> translate(std::span<const std::string> texts,
                                                  const TranslateOptions& options = {}) const;
  /// The sentences that translate() translates one by one: the text itself if it fits. The rules are in
  /// docs/semantics.md.
  std::vector<std::string> sentences(const std::string& text) const;
  /// Translates ids, taken as they are. std::invalid_argument for unknown ids and sources that are empty or too long.
  std::vector<std::vector<Hypothesis>> generate(std::span<const std::vector<std::int32_t>> sources,
                                                const TranslateOptions& options = {}) const;

  /// The backward pass of minus the log-probability of one target token, by its position, for the observer
  /// (EncoderDecoderTrainingOptions). No parameter requires a gradient, so the model does not change.
  void observe_gradients(const PairBatch& pair, std::int64_t token, Observer& observer) const;

  /// Whether the log-probability a token is below the folder's own bound, "unsure_below" of generation_config.json:
  /// such a translation is probably wrong. Never without that bound.
  bool is_unsure(const Hypothesis& found) const;

  /// Settings of the search that translate() makes with these options: theirs, or the folder's own.
  std::int64_t beams(const TranslateOptions& options) const;

  const EncoderDecoder& model() const { return *model_; }
  /// The folder's settings besides the model, tokenizers as digests: for fingerprint().
  std::string settings() const;
  /// Tokenizers of the source and target side; FormatError if the folder had none.
  const Tokenizer& tokenizer() const;
  const Tokenizer& target_tokenizer() const;

 private:
  Translator(std::string folder, std::unique_ptr<EncoderDecoder> model, std::optional<Tokenizer> tokenizer,
             std::optional<Tokenizer> target_tokenizer, GenerateOptions defaults, std::optional<double> unsure_below)
      : folder_(std::move(folder)),
        model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        target_tokenizer_(std::move(target_tokenizer)),
        defaults_(std::move(defaults)),
        unsure_below_(unsure_below) {}

  struct Piece;
  std::vector<Piece> pieces(const std::string& text, bool split) const;
  std::vector<std::vector<Hypothesis>> search(std::span<const std::vector<std::int32_t>> sources,
                                              std::span<const RandomStream> streams,
                                              const TranslateOptions& options) const;
  GenerateOptions search_options(const TranslateOptions& options) const;

  std::string folder_;
  std::unique_ptr<EncoderDecoder> model_;
  std::optional<Tokenizer> tokenizer_, target_tokenizer_;
  GenerateOptions defaults_;
  std::optional<double> unsure_below_;
};

}  // namespace qkv
