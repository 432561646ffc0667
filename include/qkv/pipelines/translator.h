/// \file
/// From sentences of one language to those of another: tokenizer, encoder-decoder model and search. Reads the folder of
/// a Marian or BART model as Hugging Face keeps it, or of a recurrent one.
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

/// What is not given is as the folder's generation_config.json says.
struct TranslateOptions {
  std::optional<std::int64_t> beams{};
  std::optional<std::int64_t> max_length{};  ///< new tokens; never more than the model has positions
  std::optional<double> length_penalty{};
  std::optional<Sampling> sampling{};  ///< samples tokens instead of searching
  /// What the first text of a call draws from, and the i-th one i lines later; sentence s of a text that was split
  /// draws s parts later.
  RandomStream stream{};
  std::int64_t nbest = 1;
  bool split = true;  ///< a text of more tokens than the model has positions is split into sentences
  int threads = 0;    ///< 0: threads()
  std::stop_token stop{};
};

/// Of a text that was split, its n-th best translation is made of the n-th best ones of its sentences.
struct Translation {
  std::string text{};
  std::vector<std::int32_t> ids{};        ///< without the start token
  double log_probability = 0, score = 0;  ///< as in generate.h
  bool unsure = false;                    ///< Translator::is_unsure, of one of the sentences if the text was split
  std::int64_t cut = 0;                   ///< tokens of the source that were not read: the model lacks positions
  std::string source{};                   ///< what was translated: the text, or a sentence of it
  std::vector<Translation> sentences{};   ///< none unless the text was split
};

/// Immutable after construction: any number of threads may call the others.
class QKV_API Translator {
 public:
  /// `folder` holds what EncoderDecoder::load reads, generation_config.json (else config.json says how to generate),
  /// and tokenizer.json, which translate() needs, with target_tokenizer.json beside it if each side of the model has a
  /// vocabulary of its own; without tokenizer.json Marian's source.spm, target.spm and vocab.json (target_vocab.json
  /// for the target side's own), as Tokenizer::load_marian reads them. FormatError, naming the file and the field, for
  /// what is malformed or asks for a way of tokenizing or generating that is not supported. `storage` as in weights.h.
  static Translator load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// Results do not depend on the other texts or on the number of threads. A text of more tokens than the model has
  /// positions is split; of a sentence that is still too long the beginning is translated (Translation::cut). A text
  /// without tokens has an empty translation. FormatError if the folder had no tokenizer.json.
  Translation translate(const std::string& text, const TranslateOptions& options = {}) const;
  std::vector<std::vector<Translation>> translate(std::span<const std::string> texts,
                                                  const TranslateOptions& options = {}) const;
  /// What translate() would translate one by one: the text itself if it fits. The rules are in docs/semantics.md.
  std::vector<std::string> sentences(const std::string& text) const;
  /// From ids, taken as they are. std::invalid_argument for ids that the model does not know and sources that are empty
  /// or too long.
  std::vector<std::vector<Hypothesis>> generate(std::span<const std::vector<std::int32_t>> sources,
                                                const TranslateOptions& options = {}) const;

  /// The backward pass of minus the log-probability of one target token, by its place in it, for what the
  /// observer sees of it (EncoderDecoderTrainingOptions). No parameter wants a gradient, so the model stays as it is.
  void observe_gradients(const PairBatch& pair, std::int64_t token, Observer& observer) const;

  /// Whether the log-probability a token is below the folder's own bound, "unsure_below" of generation_config.json:
  /// such a translation is probably wrong. Never without that bound.
  bool is_unsure(const Hypothesis& found) const;

  /// Of the search that translate() makes with these options: theirs, or the folder's own.
  std::int64_t beams(const TranslateOptions& options) const;

  const EncoderDecoder& model() const { return *model_; }
  /// What the folder says beside the model, tokenizers as digests: for fingerprint().
  std::string settings() const;
  /// Of the source and of the target side; FormatError if the folder had none.
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
