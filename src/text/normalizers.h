// The small normalizers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/stages.h"

namespace qkv::text {

Characters to_lower(CharacterSpan text);

class Lowercase : public Normalizer {
 public:
  Characters normalize(CharacterSpan text) const override { return to_lower(text); }
};

// Removes every mark; those inside of composed characters stay.
class StripAccents : public Normalizer {
 public:
  Characters normalize(CharacterSpan text) const override;
};

// Removes white space at the ends.
class StripSpace : public Normalizer {
 public:
  StripSpace(bool left, bool right) : left_(left), right_(right) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  bool left_;
  bool right_;
};

// Puts something before a text that is not empty, with the span of its first character.
Characters prepended(std::u32string_view beginning, CharacterSpan text);

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::u32string beginning) : beginning_(std::move(beginning)) {}
  Characters normalize(CharacterSpan text) const override { return prepended(beginning_, text); }

 private:
  std::u32string beginning_;
};

// One string for another, with the span of its last character.
class Replace : public Normalizer {
 public:
  // `from` is not empty.
  Replace(std::u32string from, std::u32string to) : from_(std::move(from)), to_(std::move(to)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  std::u32string from_;
  std::u32string to_;
};

// Two or more spaces become one string, with the span of the last of them.
class ReplaceSpaces : public Normalizer {
 public:
  explicit ReplaceSpaces(std::u32string to) : to_(std::move(to)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  std::u32string to_;
};

// One after the other.
class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace qkv::text
