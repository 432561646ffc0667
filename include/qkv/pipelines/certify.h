/// \file
/// Shows that a machine computes with the arithmetic of docs/arithmetic.md: the digests of fixed computations and those
/// of every machine of the class `fused`; for a model a certificate to compare between machines.
///
///     for (const CertifiedCase& found : certify()) if (!found.holds()) std::cout << found.name << " differs\n";
///     std::cout << certificate("models/minilm");   // qkv1-fused-f32-exact-3b1f...:9c05...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/matmul.h"
#include "qkv/pipelines/fingerprint.h"

namespace qkv {

struct CertifiedCase {
  std::string name;
  std::uint64_t digest = 0, expected = 0;

  bool holds() const { return digest == expected; }
};

/// Attention in all passes in f32 and f64, activations, the cross-entropy, an encoder of texts, 20 training steps, a
/// translation and a generation, on the selected target; in the order of their names. A second or two.
QKV_API std::vector<CertifiedCase> certify(const FingerprintOptions& options = {});

/// The fingerprint of the folder's model: a Translator, a Generator, a PictureClassifier (a Vit, where classifier or
/// preprocessor_config.json is missing), a TextPipeline with a head for classes or answers, or an Embedder (also of a
/// ForMaskedLM), the first that its config.json allows. Errors as of their load(); std::invalid_argument for pictures
/// in another storage than full, reduced and reduced_pairs.
QKV_API std::string fingerprint_of_folder(const std::string& folder, WeightStorage storage = WeightStorage::full,
                                          const FingerprintOptions& options = {});

/// FINGERPRINT:DIGEST, 16 digits of the model's results on fixed inputs: embeddings, translations or continuations of
/// three texts, or the logits of a random picture. Machines with equal certificates give equal bits.
QKV_API std::string certificate(const std::string& folder, WeightStorage storage = WeightStorage::full,
                                const FingerprintOptions& options = {});

/// Generates in twelve ways of splitting the work: for each a SHA-256 of tokens and log-probabilities of 12 new tokens
/// after each of N random prompts; equal ones have the same bits.
struct WayOfWriting {
  std::string name, digest;
};
/// Prompts whole, in chunks of 7, of 64 and of 2 tokens, in batches of 16, alone, in another order, batched with
/// prompts that begin alike, resumed from a session, with drafts, with 1, 2 and 5 threads, and with the weights of two
/// heads. `session`: a file for the sessions, overwritten and removed.
QKV_API std::vector<WayOfWriting> ways_of_writing(const Generator& generator, std::size_t prompts,
                                                  const std::string& session, const FingerprintOptions& options = {});

/// Says in words how two certificates or fingerprints differ: arithmetic, class, storage, precision, model, or only
/// results. Empty: they are equal. std::invalid_argument if one of them is malformed.
QKV_API std::string difference_of_certificates(const std::string& here, const std::string& expected);

}  // namespace qkv
