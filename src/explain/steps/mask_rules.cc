// Names the rules of a mask and applies them pair by pair, in words and by the definition of each.
#include <algorithm>
#include <vector>

#include "attention/options/mask_kinds.h"
#include "core/stop.h"
#include "explain/observe/intermediates.h"
#include "explain/steps/explanation_context.h"

namespace qkv::inline explaining {
namespace {

double element(const TensorView& array, const Dims& index) {
  return array.dtype() == Dtype::i64 ? static_cast<double>(array.at<std::int64_t>(index))
                                     : static_cast<double>(array.at<std::uint8_t>(index));
}

bool sees(const Mask::Part& part, std::int64_t query, std::int64_t key) {
  const MaskDescription& kind = description_of(part.kind);
  double first = 0;
  for (const MaskArray& array : kind.arrays) {
    first = element(part.arrays[0], array.of == MaskArrayOf::pairs ? Dims{0, 0, query, key} : Dims{0});
  }
  return kind.sees(part.numbers, {&first, 1}, static_cast<double>(query), static_cast<double>(key));
}

}  // namespace

std::optional<ExplainedMask> explained_mask(const ExplainInput& input, std::int64_t n) {
  const OwnedMask owned = mask_of(input, n);
  const std::vector<Mask::Part>& parts = owned.mask.parts();
  if (parts.empty()) return {};
  ExplainedMask mask{.hidden = Tensor::zeros({n, n}, Dtype::f64)};
  for (const Mask::Part& part : parts) {
    const MaskDescription& kind = description_of(part.kind);
    const bool shares = !kind.arrays.empty() && kind.arrays[0].of == MaskArrayOf::sequences;
    const double count = shares ? element(part.arrays[0], {0}) : 0;
    mask.rules.push_back(kind.words(part.numbers, {&count, 1}));
  }
  double* hidden = mask.hidden.data<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    check_stop();
    for (std::int64_t j = 0; j < n; ++j, ++hidden) {
      const auto hides = [&](const Mask::Part& part) { return !sees(part, i, j); };
      const auto rule = std::ranges::find_if(parts, hides);
      if (rule != parts.end()) *hidden = static_cast<double>(rule - parts.begin() + 1);
    }
  }
  return mask;
}

}  // namespace qkv::inline explaining
