// Attention of qkv.h: arrays become views.
#include "qkv/attention.h"

#include <iterator>

#include "c/call.h"

namespace qkv::inline for_c {
namespace {

constexpr const char* kAttention = "qkv_attention";

// In the order of qkv_type.
constexpr Dtype kTypes[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::u8, Dtype::i32, Dtype::i64};

MutableTensorView view_of(const qkv_array* array, const char* name) {
  given(array, kAttention, name);
  const Dtype type =
      kTypes[one_of(array->type, std::size(kTypes), kAttention, fmt::format("type of {}", name).c_str())];
  refuse_unless(array->rank >= 1 && array->rank <= kMaxRank, kAttention, "{} has rank {}; it must be from 1 to {}",
                name, array->rank, kMaxRank);
  refuse_unless(array->shape != nullptr, kAttention, "{} has no shape", name);
  const auto rank = static_cast<std::size_t>(array->rank);
  const Dims shape(std::span(array->shape, rank));
  for (const std::int64_t extent : shape) {
    refuse_unless(extent >= 0, kAttention, "{} has shape {}", name, to_string(shape));
  }
  refuse_unless(array->data != nullptr || element_count(shape) == 0, kAttention, "{} has shape {} and no data", name,
                to_string(shape));
  refuse_unless(reinterpret_cast<std::uintptr_t>(array->data) % size_of(type) == 0, kAttention,
                "{} is {} at an address that is no multiple of {} bytes", name, name_of(type), size_of(type));
  auto* const data = static_cast<std::byte*>(array->data);
  return array->strides == nullptr ? MutableTensorView(data, type, shape)
                                   : MutableTensorView(data, type, shape, Dims(std::span(array->strides, rank)));
}

Mask causal_mask(int causal) {
  switch (one_of(causal, QKV_CAUSAL_BOTTOM_RIGHT + 1, kAttention, "causal")) {
    case QKV_CAUSAL_TOP_LEFT:
      return Mask::causal(Align::top_left);
    case QKV_CAUSAL_BOTTOM_RIGHT:
      return Mask::causal(Align::bottom_right);
    default:
      return {};
  }
}

}  // namespace
}  // namespace qkv::inline for_c

using namespace qkv;

int qkv_attention(const qkv_array* q, const qkv_array* k, const qkv_array* v, const qkv_array* out,
                  const qkv_attention_options* options) {
  return answer([&] {
    const TensorView queries = view_of(q, "q"), keys = view_of(k, "k"), values = view_of(v, "v");
    const MutableTensorView output = view_of(out, "out");
    const qkv_attention_options rules = options == nullptr ? qkv_attention_options{} : *options;
    AttentionOptions own{.mask = causal_mask(rules.causal), .soft_cap = rules.soft_cap};
    if (rules.scale != 0) own.scale = rules.scale;
    if (rules.visible != nullptr) own.mask = own.mask & Mask::boolean(view_of(rules.visible, "visible"));
    if (rules.lengths != nullptr) own.mask = own.mask & Mask::lengths(view_of(rules.lengths, "lengths"));
    if (rules.bias != nullptr) own.bias = Bias::view(view_of(rules.bias, "bias"));
    AttentionExtras extras;
    if (rules.log_sum_exp != nullptr) extras.log_sum_exp = view_of(rules.log_sum_exp, "log_sum_exp");
    attention(queries, keys, values, output, own, extras);
  });
}
