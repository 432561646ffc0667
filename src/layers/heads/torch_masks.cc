// TorchMasks: converts the masks of torch into a mask and a bias.
#include "qkv/layers/torch_masks.h"

#include <fmt/format.h>

#include <stdexcept>

namespace qkv {

TorchMasks::TorchMasks(const Given& given, std::int64_t heads) {
  const auto fail = [](const char* name, const TensorView& view, std::string_view wanted) {
    throw std::invalid_argument(fmt::format("{} is {}; it must be {}", name, to_string(view.shape()), wanted));
  };
  if (const TensorView& mask = given.attention) {
    if (mask.rank() == 2) {
      add("attn_mask", mask, {1, 1, mask.size(0), mask.size(1)});
    } else if (mask.rank() == 3 && heads > 0 && mask.size(0) % heads == 0) {
      add("attn_mask", mask, {mask.size(0) / heads, heads, mask.size(1), mask.size(2)});
    } else {
      fail("attn_mask", mask, fmt::format("[q_len, k_len] or [batch * {} heads, q_len, k_len]", heads));
    }
  }
  if (const TensorView& mask = given.key_padding) {
    if (mask.rank() != 1 && mask.rank() != 2) fail("key_padding_mask", mask, "[batch, k_len] or [k_len]");
    add("key_padding_mask", mask, {mask.rank() == 2 ? mask.size(0) : 1, 1, 1, mask.size(-1)});
  }
}

void TorchMasks::add(const char* name, const TensorView& values, const Dims& shape) {
  Tensor& own = storage_.emplace_back(Tensor::copy(values));
  const TensorView view = own.view().reshape(shape);
  if (values.dtype() == Dtype::boolean) {
    bool* hidden = own.data<bool>();
    for (std::int64_t i = 0; i < own.element_count(); ++i) hidden[i] = !hidden[i];
    mask_ = mask_ & Mask::boolean(view);
  } else if (is_floating(values.dtype())) {
    bias_ = bias_ + Bias::view(view);
  } else {
    throw std::invalid_argument(fmt::format("{} is {}; it must be bool (true = hidden) or a floating type (added)",
                                            name, name_of(values.dtype())));
  }
}

}  // namespace qkv
