/// \file
/// Shows that a machine computes with the arithmetic of docs/arithmetic.md: the digests of fixed computations beside
/// those that every machine of the class `fused` has; and of a model a certificate, which two machines compare.
///
///     for (const CertifiedCase& found : certify()) if (!found.holds()) std::cout << found.name << " parts\n";
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

/// The fingerprint of what the folder holds: a Translator, a Generator, a PictureClassifier (a Vit,
/// where classifier or preprocessor_config.json is missing), a TextPipeline with a head for classes or answers, or an
/// Embedder (also of a ForMaskedLM), the first that its config.json allows.
/// Errors as of their load(); std::invalid_argument for pictures in another storage than full, reduced and
/// reduced_pairs.
QKV_API std::string fingerprint_of_folder(const std::string& folder, WeightStorage storage = WeightStorage::full,
                                          const FingerprintOptions& options = {});

/// FINGERPRINT:DIGEST, 16 digits of what the same makes of fixed inputs: embeddings of three texts, their translations,
/// what is written behind them, or the logits of a drawn picture. Machines whose certificates are equal give equal
/// bits.
QKV_API std::string certificate(const std::string& folder, WeightStorage storage = WeightStorage::full,
                                const FingerprintOptions& options = {});

/// What a Generator writes however the work is cut, twelve ways: a SHA-256 of the tokens and the log-probabilities of
/// 12 that it writes behind each of so many prompts of drawn ids; equal ones have the same bits.
struct WayOfWriting {
  std::string name, digest;
};
/// Prompts whole, in chunks of 7, of 64 and of 2 tokens, in batches of 16, alone, in another order, beside others that
/// begin alike, resumed from a session, with drafts, with 1, 2 and 5 threads, and with the weights of two heads asked
/// for. `session`: a file for the sessions, which is overwritten and removed.
QKV_API std::vector<WayOfWriting> ways_of_writing(const Generator& generator, std::size_t prompts,
                                                  const std::string& session, const FingerprintOptions& options = {});

/// In words what parts two certificates or fingerprints: the arithmetic, the class, storage, precision, the model, or
/// the results alone. Empty: nothing. std::invalid_argument if one of them is none.
QKV_API std::string difference_of_certificates(const std::string& here, const std::string& expected);

}  // namespace qkv
