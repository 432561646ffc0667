// Decides what is kept of attention over long inputs, and has room for it.
#include "qkv/explain/attention_maps.h"

#include <algorithm>

#include "explain/measure/pyramid.h"
#include "explain/observe/require.h"

namespace qkv {
namespace {

constexpr std::int64_t kMostMaps = 512;

}  // namespace

AttentionMaps::AttentionMaps(const Dims& rows, std::int64_t keys, Dtype dtype, const AttentionMapsOptions& options)
    : keys_(keys), dtype_(dtype), keep_(options.keep), keep_rows_(options.keep_rows) {
  require(rows.size() > 0, "the queries must have at least one dimension");
  queries_ = rows[rows.size() - 1];
  for (int i = 0; i + 1 < rows.size(); ++i) leading_.push_back(rows[i]);
  if (leading_.size() > 0) heads_ = leading_[leading_.size() - 1];
  for (int i = 0; i + 1 < leading_.size(); ++i) batch_ *= leading_[i];
  require(queries_ > 0 && keys_ > 0 && heads_ > 0 && batch_ > 0, "nothing to draw: {} queries, {} keys", queries_,
          keys_);
  require(batch_ * heads_ <= kMostMaps, "{} heads are more than the {} that a report draws", batch_ * heads_,
          kMostMaps);
  check_kept(keep_.size(), keep_rows_.size());
  for (const MapHead& head : keep_) {
    require(head.batch >= 0 && head.batch < batch_ && head.head >= 0 && head.head < heads_,
            "there is no head {}.{} to keep; the first number is 0 to {}, the second 0 to {}", head.batch, head.head,
            batch_ - 1, heads_ - 1);
  }
  for (const std::int64_t row : keep_rows_) {
    require(row >= 0 && row < queries_, "there is no row {} to keep; the rows are 0 to {}", row, queries_ - 1);
  }
  whole_ = queries_ <= kWhole && keys_ <= kWhole;
  if (whole_) {
    keep_.clear();
    keep_rows_.clear();
    for (std::int64_t b = 0; b < batch_; ++b) {
      for (std::int64_t h = 0; h < heads_; ++h) keep_.push_back({b, h});
    }
    for (std::int64_t i = 0; i < queries_; ++i) keep_rows_.push_back(i);
  }
  const std::int64_t top = whole_ ? 0 : std::min(keys_, kTop);
  const MapSizes sizes{batch_ * heads_, queries_, keys_, std::ssize(keep_), top};
  const std::int64_t grid = finest_grid({&sizes, 1}, std::ssize(keep_rows_), dtype_, options.bytes);
  const auto with = [&](std::initializer_list<std::int64_t> last) {
    Dims shape = leading_;
    for (const std::int64_t size : last) shape.push_back(size);
    return shape;
  };
  blocks_ = Tensor::uninitialized(with({std::min(queries_, grid), std::min(keys_, grid)}), dtype_);
  if (keep_.empty()) return;
  if (!whole_) {
    top_keys_ = Tensor::uninitialized(with({queries_, top}), Dtype::i64);
    top_weights_ = Tensor::uninitialized(with({queries_, top}), dtype_);
  }
  const std::int64_t count = std::ssize(keep_) * std::ssize(keep_rows_);
  if (count == 0) return;
  chosen_ = Tensor::uninitialized({count, 3}, Dtype::i64);
  row_weights_ = Tensor::uninitialized({count, keys_}, dtype_);
  std::int64_t* chosen = chosen_.data<std::int64_t>();
  for (const MapHead& head : keep_) {
    for (const std::int64_t row : keep_rows_) {
      for (const std::int64_t number : {head.batch, head.head, row}) *chosen++ = number;
    }
  }
}

AttentionExtras AttentionMaps::extras() {
  AttentionExtras extras;
  extras.block_weights = blocks_;
  if (!keep_.empty() && !whole_) {
    extras.top_keys = top_keys_;
    extras.top_weights = top_weights_;
  }
  if (!keep_.empty() && !keep_rows_.empty()) {
    extras.rows = chosen_;
    extras.row_weights = row_weights_;
  }
  return extras;
}

namespace {

// [batch * heads, ., .] of [..., heads, ., .]
TensorView of_head(const Tensor& all, const MapHead& head, std::int64_t heads) {
  const TensorView view = all;
  return view.reshape({all.element_count() / (all.size(-2) * all.size(-1)), all.size(-2), all.size(-1)})
      .select(0, head.batch * heads + head.head);
}

}  // namespace

TensorView AttentionMaps::blocks(const MapHead& head) const { return of_head(blocks_, head, heads_); }
TensorView AttentionMaps::top_keys(const MapHead& head) const { return of_head(top_keys_, head, heads_); }
TensorView AttentionMaps::top_weights(const MapHead& head) const { return of_head(top_weights_, head, heads_); }

TensorView AttentionMaps::rows(const MapHead& head) const {
  const auto at = std::ranges::find(keep_, head) - keep_.begin();
  require(at < std::ssize(keep_), "no rows of head {}.{} are kept", head.batch, head.head);
  const std::int64_t count = std::ssize(keep_rows_);
  return row_weights_.view().slice(0, at * count, (at + 1) * count);
}

}  // namespace qkv
