// The detokenizers ("decoders"): tokens to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/stages/stages.h"

namespace qkv::text {

// Characters of byte_alphabet.h to bytes, all tokens to one. Bytes that are no UTF-8 become U+FFFD.
class ByteLevelDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

// The visible space becomes a space; `first_goes`: in the first token it goes.
class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(std::string replacement, bool first_goes)
      : replacement_(std::move(replacement)), first_goes_(first_goes) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string replacement_;
  bool first_goes_;
};

// The mark at the end of a word becomes a space, at the end of the text nothing.
class SuffixDecoder : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string suffix_;
};

// Neighbouring tokens <0x00> to <0xFF> become the text of their bytes; U+FFFD each, if that is no UTF-8.
class ByteFallbackDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

class ReplaceDecoder : public Decoder {
 public:
  // `from` is not empty.
  ReplaceDecoder(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string from_;
  std::string to_;
};

// All tokens become one.
class FuseDecoder : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override;
};

// Up to `start` and `stop` of one character go from the ends of each token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string character, std::size_t start, std::size_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string character_;
  std::size_t start_;
  std::size_t stop_;
};

// One after the other.
class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<Decoder>> steps) : steps_(std::move(steps)) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::vector<std::unique_ptr<Decoder>> steps_;
};

// Tokens to text: pieces that continue a word are joined to it, all others follow a space.
class WordPieceDecoder : public Decoder {
 public:
  // `cleanup`: no space before punctuation and English contractions.
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace qkv::text
