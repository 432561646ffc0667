// Chooses the kernel of a head, and its precision.
#include "attention/call/kernel_choice.h"

#include <algorithm>
#include <cmath>

#include "attention/tile/tile_pieces.h"
#include "qkv/attention/precision.h"
#include "qkv/target.h"
#include "simd/dispatch.h"

namespace qkv {

bool has_reduced_precision() {
  const std::string target = selected_target();
  return target == "avx512-bf16" || target == "amx";
}

inline namespace attending {
namespace {

BlockProduct product_of(const AttentionTask& task) {
  if (task.precision == Precision::reduced) return uses_amx() ? BlockProduct::reduced_tiles : BlockProduct::reduced;
  if (size_of(task.key.type) != 2 || !is_dot_product(task.common->score)) return BlockProduct::exact;
  if (uses_bf16_pairs()) return task.key.type == Dtype::bf16 ? BlockProduct::pairs : BlockProduct::exact;
  const bool tiles = uses_amx() && tile_words(task) <= kMostTileWords;
  return tiles ? BlockProduct::tiles : BlockProduct::exact;
}

}  // namespace

void choose_kernel(AttentionTask& task, Precision asked) {
  const CommonTask& common = *task.common;
  const bool is_alone = task.q_len == 1 && is_dot_product(common.score);
  task.kernel = is_alone ? AttentionKernel::single_query : AttentionKernel::blocks;
  task.precision = is_alone ? Precision::exact : asked;
  task.product = product_of(task);
  task.is_plain = !is_additive(common.score) && common.soft_cap == 0 && common.bias_count == 0 &&
                  common.table_count == 0 && common.logit_function == nullptr && task.alibi_slope == 0 &&
                  std::abs(common.scale) >= 1e-30;
}

std::string why_not_reduced(Dtype storage, Score::Kind score, std::int64_t key_dim, std::int64_t value_dim) {
  if (!has_reduced_precision()) return "target " + selected_target() + " on this CPU does not multiply in bf16";
  if (storage == Dtype::f64) return "f64 is not reduced";
  if (is_additive(score)) return "this score does not multiply queries by keys";
  if (std::max(key_dim, value_dim) > kMostReducedDim) return "head and value sizes above 512 are not reduced";
  return {};
}

}  // namespace attending
}  // namespace qkv
