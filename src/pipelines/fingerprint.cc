// Fingerprints: weights as they are in memory, configs and settings as texts, tokenizers as they are built.
#include "qkv/pipelines/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "core/sha256.h"
#include "models/config_text.h"
#include "pipelines/pipeline_folder.h"
#include "qkv/layers/weights.h"
#include "qkv/stop.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "qkv/version.h"

namespace qkv {
inline namespace pipelines {

// For what options hold.
std::string config_text(const Sampling& sampling) {
  const auto fields = [](const Sampling& of) {
    const auto& [temperature, top_k, top_p, min_p, seed] = of;
    return std::tie(temperature, top_k, top_p, min_p, seed);
  };
  return changed_fields({"temperature", "top_k", "top_p", "min_p", "seed"}, fields(sampling), fields({}));
}

namespace {

std::string search_text(const GenerateOptions& options) {
  const auto fields = [](const GenerateOptions& of) {
    const auto& [start, ends, forbidden, forced_begin, forced_end, max_length, min_length, no_repeat_ngram,
                 repetition_penalty, renormalize, beams, nbest, length_penalty, early_stopping, sampling, drafts, rows,
                 on_token, threads, stop] = of;
    return std::tie(start, ends, forbidden, forced_begin, forced_end, max_length, min_length, no_repeat_ngram,
                    repetition_penalty, renormalize, beams, nbest, length_penalty, early_stopping, sampling);
  };
  const GenerateOptions defaults;
  return changed_fields(
      {"start", "ends", "forbidden", "forced_begin", "forced_end", "max_length", "min_length", "no_repeat_ngram",
       "repetition_penalty", "renormalize", "beams", "nbest", "length_penalty", "early_stopping", "sampling"},
      fields(options), fields(defaults));
}

std::string digest_of(const std::optional<Tokenizer>& tokenizer) { return tokenizer ? tokenizer->digest() : "none"; }

class Fingerprint {
 public:
  explicit Fingerprint(const FingerprintOptions& options) : stop_(options.stop), threads_(options.threads) {}

  void add(const std::string& text) { digest_.add(text); }

  // In the order of the model, independent of names. Rounded weights as rounded, with their units.
  template <class Model>
  void add_weights(const Model& model) {
    model.visit([&](const std::string&, const Parameter& parameter) {
      if (parameter.storage != WeightStorage::full) storage_ = parameter.storage;
      if (parameter.value.dtype() == Dtype::f64) numbers_ = Dtype::f64;
      add_tensor(parameter.value);
      add_tensor(parameter.units);
    });
  }

  std::string text() {
    const auto all = targets();
    const auto selected = std::ranges::find_if(all, &Target::selected);
    const Precision precision = precision_of(storage_);
    const auto word = std::ranges::find(kWeightStorages, precision == Precision::exact ? storage_ : WeightStorage::bf16,
                                        &std::pair<std::string_view, WeightStorage>::second);
    constexpr std::size_t kDigits = 32;
    return fmt::format("qkv{}-{}-{}-{}-{}", kArithmetic, selected->fused ? "fused" : "unfused",
                       numbers_ == Dtype::f64 ? "f64" : word->first, name_of(precision),
                       digest_.hexadecimal().substr(0, kDigits));
  }

 private:
  // Pieces of a fixed size by themselves, on all threads, then their digests.
  void add_tensor(const Tensor& tensor) {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    digest_.add(fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape())));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensor.view().bytes());
    const std::size_t count = static_cast<std::size_t>(tensor.element_count()) * size_of(tensor.dtype());
    std::vector<std::array<std::uint8_t, 32>> pieces((count + kPiece - 1) / kPiece);
    parallel_for(std::ssize(pieces), threads_, [&](std::int64_t i, int) {
      const std::size_t begin = static_cast<std::size_t>(i) * kPiece;
      Sha256 piece;
      piece.add(bytes + begin, std::min(kPiece, count - begin));
      pieces[static_cast<std::size_t>(i)] = piece.finish();
    });
    for (const auto& piece : pieces) digest_.add(piece.data(), piece.size());
  }

  StopScope stop_;
  int threads_;
  Sha256 digest_;
  WeightStorage storage_ = WeightStorage::full;
  Dtype numbers_ = Dtype::f32;
};

std::string text_of(const TextEncoder& model) { return "text_encoder " + config_text(model.config()); }
std::string text_of(const TextModel& model) {
  const auto& [task, outputs, labels, pools_mean, problem] = model.config();
  return fmt::format("text_model {}task={} outputs={} pools_mean={} labels={}", config_text(model.encoder().config()),
                     field_text(task), outputs, pools_mean, field_text(labels));
}
std::string text_of(const LanguageModel& model) { return "language_model " + config_text(model.config()); }
std::string text_of(const EncoderDecoder& model) { return "encoder_decoder " + model.config_text(); }
std::string text_of(const Embedder& embedder) { return text_of(embedder.model()); }
std::string text_of(const Vit& model) { return "vit " + config_text(model.config()); }

// `beside`: the settings of a pipeline, without its model.
template <class Model>
std::string fingerprint_of(const Model& model, const FingerprintOptions& options,
                           const std::vector<std::string>& beside = {}) {
  Fingerprint fingerprint(options);
  fingerprint.add(text_of(model));
  for (const std::string& text : beside) fingerprint.add(text);
  fingerprint.add_weights(model);
  return fingerprint.text();
}

}  // namespace
}  // namespace pipelines

std::string Embedder::settings(const EmbedOptions& options) const {
  std::string text = fmt::format("pooling={} normalize={} include_prompt={} prompt={} max_length={} tokenizer={}",
                                 static_cast<int>(steps_->pooling), steps_->normalize, steps_->include_prompt,
                                 field_text(prompt_of(options)), max_length(options), tokenizer_.digest());
  if (kind() == EmbeddingKind::vector) {
    const bool is_cut = dim(options) < model().config().model_dim;
    if (is_cut) text += fmt::format(" dimensions={}", dim(options));
    const bool normalizes = options.normalize.value_or(steps_->normalize);
    if (normalizes != steps_->normalize && (is_cut || normalizes)) text += fmt::format(" last={}", normalizes);
    return text;
  }
  if (kind() == EmbeddingKind::sparse) {
    const std::size_t most = options.dimensions > 0 ? options.dimensions : static_cast<std::size_t>(steps_->dimensions);
    return text + fmt::format(" sparse twice={} most={}", steps_->log_twice, most);
  }
  const bool is_query = options.role == TextRole::query;
  text += fmt::format(" tokens role={} skipped={} in={}", is_query ? "query" : "document", field_text(skipped_),
                      field_text(steps_->skipped_in));
  const auto marker = markers_.find(options.role);
  if (marker != markers_.end()) text += fmt::format(" marker={}", marker->second);
  if (!is_query || !steps_->expansion) return text;
  return text + fmt::format(" length={} attended={} filler={}", steps_->expansion->length, steps_->expansion->attended,
                            filler_);
}

std::string TextPipeline::settings() const {
  return fmt::format("scores={} sigmoid={} max_length={} tokenizer={}", field_text(scores_), ranks_by_sigmoid_,
                     max_length_, tokenizer_.digest());
}

std::string Generator::settings() const {
  return fmt::format("{}max_length={} max_new_tokens={} min_length={} min_new_tokens={} stop_strings={} tokenizer={}",
                     search_text(defaults_), field_text(lengths_.max_length), field_text(lengths_.max_new_tokens),
                     lengths_.min_length, lengths_.min_new_tokens, field_text(stop_strings_), digest_of(tokenizer_));
}

std::string Translator::settings() const {
  return fmt::format("{}unsure_below={} tokenizers={} {}", search_text(defaults_), field_text(unsure_below_),
                     digest_of(tokenizer_), digest_of(target_tokenizer_));
}

std::string fingerprint(const TextEncoder& model, const FingerprintOptions& options) {
  return fingerprint_of(model, options);
}

std::string fingerprint(const LanguageModel& model, const FingerprintOptions& options) {
  return fingerprint_of(model, options);
}

std::string fingerprint(const EncoderDecoder& model, const FingerprintOptions& options) {
  return fingerprint_of(model, options);
}

std::string fingerprint(const Vit& model, const FingerprintOptions& options) { return fingerprint_of(model, options); }

std::string fingerprint(const Embedder& embedder, const FingerprintOptions& options) {
  return fingerprint_of(embedder, options, {embedder.settings(options.embedding)});
}

std::string fingerprint(const TextPipeline& pipeline, const FingerprintOptions& options) {
  return fingerprint_of(pipeline.model(), options, {pipeline.settings()});
}

std::string fingerprint(const Generator& generator, const FingerprintOptions& options) {
  return fingerprint_of(generator.model(), options, {generator.settings()});
}

std::string fingerprint(const Translator& translator, const FingerprintOptions& options) {
  return fingerprint_of(translator.model(), options, {translator.settings()});
}

std::string fingerprint(const PictureClassifier& classifier, const FingerprintOptions& options) {
  return fingerprint_of(classifier.model(), options, {config_text(classifier.processor().config())});
}

}  // namespace qkv
