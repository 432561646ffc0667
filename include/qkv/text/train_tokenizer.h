/// \file
/// Learns a byte-pair vocabulary from text and writes it as a tokenizer.json that the `tokenizers` library reads, too.
///
///     TokenizerTrainer trainer;
///     for (const std::string& line : lines) trainer.add(line);
///     write_file("tokenizer.json", trainer.train(8000));
///
/// Nothing is unknown to such a vocabulary, and decoding gives back every text: words, each with the space before it,
/// are cut into the bytes of their UTF-8, and neighbours that are frequent are joined. A space before the text makes
/// its first word the same as that word elsewhere; decoding takes it away again.
///
/// Tokens: `</s>` is 0 and ends every encoding, or begins it, `<unk>` is 1 and never comes up, 2 to 257 are the bytes,
/// then the joined pieces; `<pad>` is the last one. So Marian-type models have it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "qkv/api.h"

namespace qkv {

/// Where the end token stands: behind a text, as encoder-decoders have it; or before it, as language models do, which
/// write what comes behind.
enum class EndTokenPlace { behind, before };

class QKV_API TokenizerTrainer {
 public:
  static constexpr std::int64_t kSmallestVocab = 259;  ///< special tokens and bytes
  static constexpr std::int64_t kLargestVocab = 200'000;

  explicit TokenizerTrainer(EndTokenPlace place = EndTokenPlace::behind);
  TokenizerTrainer(const TokenizerTrainer&) = delete;
  ~TokenizerTrainer();

  /// Bytes that are not UTF-8 count as U+FFFD.
  void add(std::string_view text);

  /// The tokenizer.json of a vocabulary of `vocab` tokens; of fewer if no two neighbours were seen twice any more. The
  /// same for the same texts in any order. std::invalid_argument for a vocab out of its bounds.
  std::string train(std::int64_t vocab) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qkv
