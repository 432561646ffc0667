// Keys and values of earlier tokens on the command line of `attend`, to which those of the call are appended.
#pragma once

#include <optional>

#include "array_files.h"
#include "qkv/attention/key_value_cache.h"

namespace qkv::app {

class AttendCache {
 public:
  explicit AttendCache(ArrayFiles& files) : files_(files) {}

  bool given() const { return past_key_.given(); }
  InputArray& past_key() { return past_key_; }
  InputArray& past_value() { return past_value_; }

  // Keys of a sequence once these are appended.
  std::int64_t length(const TensorView& key) const { return past_key_.view().size(2) + key.size(-2); }
  // What there is then, in memory and in the files for it.
  KeyValueCache append(const TensorView& key, const TensorView& value) const;
  void allocate(const TensorView& key, const TensorView& value, Dtype dtype) const;

 private:
  ArrayFiles& files_;
  // Queries behind a cache are padded; it has no derivatives.
  InputArray& past_key_ =
      files_.input("--past-key",
                   "[batch, kv_heads, past, head_dim]: keys of earlier tokens, to which --key is appended; the queries "
                   "are at the end of all",
                   needs("--past-value") & excludes("--offsets-query", "--block-table", "--received", "--grad-out",
                                                    "--tangent-query", "--tangent-key", "--tangent-value", "--verify"));
  InputArray& past_value_ = files_.input(
      "--past-value", "[batch, kv_heads, past, value_dim]: the values of these tokens", needs("--past-key"));
  ArrayOption& present_key_ =
      files_.output("--present-key", "all keys to write, the appended ones last", needs("--past-key"));
  ArrayOption& present_value_ = files_.output("--present-value", "all values to write", needs("--past-key"));
};

}  // namespace qkv::app
