// Applies dropout to rows between layers.
#include "layers/basic/layer_dropout.h"

#include <algorithm>

#include "core/mathematics.h"
#include "core/visit_dtype.h"
#include "ops/rowwise/dropout_rows.h"
#include "qkv/random.h"
#include "qkv/threads.h"

namespace qkv::inline layers {

Dropout dropout_at(const Dropout& dropout, std::uint32_t site) {
  // The last number of the counter sets these blocks apart from those of masks, which count sequences there.
  const auto bits = philox({site, 0, 0, 0xFFFFFFFFu}, dropout.seed);
  return {.p = dropout.p, .seed = std::uint64_t{bits[1]} << 32 | bits[0]};
}

void drop(const Dropout& dropout, const TensorView& x, const MutableTensorView& out, int threads,
          std::int64_t first_row) {
  const DropoutRule rule(dropout);
  if (!rule.is_on()) {
    if (x.bytes() != out.bytes()) convert(x, out);
    return;
  }
  constexpr std::int64_t kElementsAtOnce = 1 << 14;
  const std::int64_t rows = x.size(0), step = std::max<std::int64_t>(1, kElementsAtOnce / x.size(1));
  const auto run = [&]<class T>(T) {
    parallel_for(divide_up(rows, step), threads, [&](std::int64_t task, int) {
      const std::int64_t begin = task * step;
      drop_rows({.rule = rule,
                 .x = x.data<T>() + begin * x.stride(0),
                 .x_stride = x.stride(0),
                 .out = out.data<T>() + begin * out.stride(0),
                 .out_stride = out.stride(0),
                 .first_row = first_row + begin,
                 .rows = std::min(step, rows - begin),
                 .size = x.size(1)});
    });
  };
  visit_f32_f64(x.dtype(), run);
}

}  // namespace qkv::inline layers
