// Tasks for translators: reversal, drawn by a seed, and a book of phrases.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/encoder_decoder.h"
#include "qkv/train/examples.h"

namespace qkv::comparison {

// Symbols 0 to 9 and the end; the target side has them in the other order. `extent` is their number.
EncoderDecoderTokens reversal_tokens(std::int64_t positions);
std::span<const std::int64_t> reversal_extents();  // that are measured; training draws from 1 to the last
TokenPair draw_reversal(std::int64_t extent, std::uint64_t seed, std::uint64_t number);

// Examples to train on, each drawn when it is wanted.
class ReversalExamples : public Examples<PairBatch> {
 public:
  ReversalExamples(std::uint64_t seed, std::int64_t count) : seed_(seed), count_(count) {}

  std::int64_t count() const override { return count_; }
  ExampleSize size(std::int64_t i) const override;
  std::uint32_t checksum() const override;
  PairBatch collect(std::span<const std::uint32_t> chosen) const override;

 private:
  TokenPair example(std::int64_t i) const;

  std::uint64_t seed_;
  std::int64_t count_;
};

// Phrases as tokens, a word each, those of a side numbered in the order of their first use; each phrase ends in the
// end.
struct PhraseBook {
  EncoderDecoderTokens tokens{};
  std::vector<TokenPair> pairs{};
  // Numbers of pairs by the words of their source; the last group has those with more, too.
  std::map<std::int64_t, std::vector<std::size_t>> by_words{};
};
// A file of pairs, a pair a line (qkv/files.h). FormatError.
PhraseBook read_phrase_book(const std::string& path);

}  // namespace qkv::comparison
