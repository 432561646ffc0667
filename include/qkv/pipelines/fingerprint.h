/// \file
/// A string that identifies everything that fixes the bits of a model's results: equal fingerprints give equal results,
/// bit for bit, for any CPU of the class, threads, other rows of a batch and version.
///
///     std::cout << fingerprint(Embedder::load("models/minilm"));   // qkv1-fused-f32-exact-3b1f...
///
/// Its parts: the arithmetic's number (version.h); the class of the selected target, fused or unfused (Target::fused);
/// how products keep weights, a word of kWeightStorages or f64; the precision; and 32 digits of a SHA-256 of the
/// weights as the model has them, its config, its tokenizers and the folder's other settings: pooling, prompt and
/// limits of embedding, generation, preparation of pictures. Names of files and tensors, the order of keys, shards and
/// number formats that hold the same weights change nothing. Options of a call are not part of it. A folder opened in
/// two ways, as an Embedder and as a FillMask, has two, one for what each of them computes with.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

#include "qkv/api.h"
#include "qkv/models/encoder_decoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/vit.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/picture_classifier.h"
#include "qkv/pipelines/text_pipeline.h"
#include "qkv/pipelines/translator.h"

namespace qkv {

struct FingerprintOptions {
  EmbedOptions embedding{};  ///< of the Embedder's calls; cut, threads and stop do not matter
  int threads = 0;           ///< 0: threads()
  std::stop_token stop{};
};

/// Reads all weights once: some 0.3 s a GB and thread. Needs additional memory for the largest weight.
QKV_API std::string fingerprint(const TextEncoder& model, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const LanguageModel& model, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const EncoderDecoder& model, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const Vit& model, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const Embedder& embedder, const FingerprintOptions& options = {});
/// For a Reranker, TextClassifier, FillMask, Tagger or QuestionAnswerer.
QKV_API std::string fingerprint(const TextPipeline& pipeline, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const Generator& generator, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const Translator& translator, const FingerprintOptions& options = {});
QKV_API std::string fingerprint(const PictureClassifier& classifier, const FingerprintOptions& options = {});

}  // namespace qkv
