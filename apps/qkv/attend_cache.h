// Keys and values of earlier tokens on the command line of `attend`, to which those of the call are appended.
#pragma once

#include <optional>

#include "array_files.h"
#include "qkv/attention/key_value_cache.h"

namespace qkv::app {

class AttendCache {
 public:
  explicit AttendCache(ArrayFiles& files);

  // Queries behind a cache are padded; it has no derivatives.
  void exclude(CLI::App& command, std::initializer_list<const char*> options) const;
  bool given() const { return past_key_.given(); }
  InputArray& past_key() { return past_key_; }
  InputArray& past_value() { return past_value_; }

  // Keys of a sequence once these are appended.
  std::int64_t length(const TensorView& key) const { return past_key_.view().size(2) + key.size(-2); }
  // What there is then, in memory and in the files for it.
  KeyValueCache append(const TensorView& key, const TensorView& value) const;
  void place(ArrayFiles& files, const TensorView& key, const TensorView& value, Dtype dtype) const;

 private:
  InputArray &past_key_, &past_value_;
  ArrayOption &present_key_, &present_value_;
};

}  // namespace qkv::app
