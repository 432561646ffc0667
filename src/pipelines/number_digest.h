// A digest of numbers by their bits: equal results have equal digests. NaN counts as one number, and so does 0, whose
// sign no rule fixes.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "qkv/tensor.h"

namespace qkv::inline pipelines {

class NumberDigest {
 public:
  void add(const TensorView& view) {
    if (!view) return;
    const Tensor whole = Tensor::copy(view);
    const auto count = static_cast<std::size_t>(whole.element_count());
    if (whole.dtype() == Dtype::f32) {
      for (std::size_t i = 0; i < count; ++i) add_number(whole.data<float>()[i]);
    } else if (whole.dtype() == Dtype::f64) {
      for (std::size_t i = 0; i < count; ++i) add_number(whole.data<double>()[i]);
    } else {
      const auto* bytes = reinterpret_cast<const unsigned char*>(whole.view().bytes());
      for (std::size_t i = 0; i < count * size_of(whole.dtype()); ++i) add_word(bytes[i]);
    }
  }

  template <class T>
  void add_number(T number) {
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    if (number != number) {
      add_word(1);
    } else if (number != 0) {
      add_word(std::bit_cast<Word>(number));
    } else {
      add_word(0);
    }
  }

  std::uint64_t value() const { return state_; }

 private:
  // FNV-1a, word by word.
  void add_word(std::uint64_t word) { state_ = (state_ ^ word) * 1099511628211u; }

  std::uint64_t state_ = 14695981039346656037u;
};

inline std::uint64_t digest_of(std::initializer_list<TensorView> views) {
  NumberDigest digest;
  for (const TensorView& view : views) digest.add(view);
  return digest.value();
}

}  // namespace qkv::inline pipelines
