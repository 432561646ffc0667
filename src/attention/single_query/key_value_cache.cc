// KeyValueCache: appends rows to pages, shares pages between sequences, and attends to all that is cached.
#include "qkv/attention/key_value_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "attention/call/view_checks.h"
#include "core/refuse.h"

namespace qkv {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The same pages in more memory.
Tensor enlarged(const Tensor& storage, std::int64_t pages) {
  Dims shape = storage.shape();
  shape[0] = pages;
  Tensor larger = Tensor::uninitialized(shape, storage.dtype());
  convert(storage, larger.view().slice(0, 0, storage.size(0)));
  return larger;
}

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueCacheConfig& config) : config_(config) {
  if (config_.value_dim == 0) config_.value_dim = config_.head_dim;
  const auto [batch, kv_heads, head_dim, value_dim, dtype, page_rows] = config_;
  if (batch < 0 || kv_heads < 1 || head_dim < 1 || value_dim < 1 || page_rows < 1) {
    refuse("key/value cache",
           "kv_heads {}, head_dim {}, value_dim {} and page_rows {} must be 1 or more, batch {} 0 or more", kv_heads,
           head_dim, value_dim, page_rows, batch);
  }
  if (!is_floating(dtype)) refuse("key/value cache", "type {} must be f32, f64, bf16 or f16", name_of(dtype));
  keys_ = Tensor::uninitialized({0, kv_heads, page_rows, head_dim}, dtype);
  values_ = Tensor::uninitialized({0, kv_heads, page_rows, value_dim}, dtype);
  table_.resize(at(batch * blocks_));
  lengths_.resize(at(batch));
  dropped_.resize(at(batch));
}

TensorView KeyValueCache::block_table() const {
  return {reinterpret_cast<const std::byte*>(table_.data()), Dtype::i32, {batch(), blocks_}};
}

TensorView KeyValueCache::lengths() const {
  return {reinterpret_cast<const std::byte*>(lengths_.data()), Dtype::i32, {batch()}};
}

void KeyValueCache::append(const TensorView& k, const TensorView& v) {
  check_rows(k, v, 4);
  if (k.size(0) != batch()) refuse("key/value cache", "key {} is not for a batch of {}", to_string(k.shape()), batch());
  for (std::int64_t b = 0; b < batch(); ++b) append_rows(b, k.select(0, b), v.select(0, b));
}

void KeyValueCache::append(const TensorView& k, const TensorView& v, const TensorView& offsets) {
  check_rows(k.transpose(0, 1), v.transpose(0, 1), 3);
  if (offsets.rank() != 1 || offsets.size(0) != batch() + 1) {
    refuse("key/value cache", "offsets {} must be [{}], the batch + 1", to_string(offsets.shape()), batch() + 1);
  }
  if (offsets.dtype() != Dtype::i32 && offsets.dtype() != Dtype::i64) {
    refuse("key/value cache", "offsets must be i32 or i64, got {}", name_of(offsets.dtype()));
  }
  const Tensor copy = convert(offsets, Dtype::i64);
  const std::span rows(copy.data<std::int64_t>(), at(copy.element_count()));
  if (rows.front() != 0 || rows.back() != k.size(0) || !std::is_sorted(rows.begin(), rows.end())) {
    refuse("key/value cache", "offsets must start at 0, never decrease, and end at the number of rows of key, {}",
           k.size(0));
  }
  for (std::int64_t b = 0; b < batch(); ++b) {
    const std::int64_t first = rows[at(b)], last = rows[at(b + 1)];
    append_rows(b, k.slice(0, first, last).transpose(0, 1), v.slice(0, first, last).transpose(0, 1));
  }
}

// k and v: [..., kv_heads, rows, size].
void KeyValueCache::check_rows(const TensorView& k, const TensorView& v, int rank) const {
  const bool fits = k.rank() == rank && v.rank() == rank && k.size(-3) == config_.kv_heads &&
                    v.size(-3) == config_.kv_heads && k.size(0) == v.size(0) && k.size(-2) == v.size(-2) &&
                    k.size(-1) == config_.head_dim && v.size(-1) == config_.value_dim;
  if (!fits) {
    refuse("key/value cache", "key {} and value {} must be equally many rows of {} heads, of sizes {} and {}",
           to_string(k.shape()), to_string(v.shape()), config_.kv_heads, config_.head_dim, config_.value_dim);
  }
  if (!is_floating(k.dtype()) || !is_floating(v.dtype())) {
    refuse("key/value cache", "key and value must be of a floating type, got {} and {}", name_of(k.dtype()),
           name_of(v.dtype()));
  }
  const std::int64_t longest = batch() == 0 ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
  if (k.size(-2) > std::numeric_limits<std::int32_t>::max() - longest) {
    refuse("key/value cache", "{} more keys after {} are too many", k.size(-2), longest);
  }
}

// k and v: [kv_heads, rows, size].
void KeyValueCache::append_rows(std::int64_t b, const TensorView& k, const TensorView& v) {
  const std::int64_t rows = config_.page_rows, count = k.size(1);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t length = lengths_[at(b)], row = length % rows;
    const std::int64_t some = std::min(count - done, rows - row);
    make_own(b, length / rows);
    const std::int64_t page = block(b, length / rows);
    convert(k.slice(1, done, done + some), keys_.view().select(0, page).slice(1, row, row + some));
    convert(v.slice(1, done, done + some), values_.view().select(0, page).slice(1, row, row + some));
    lengths_[at(b)] += static_cast<std::int32_t>(some);
    done += some;
  }
}

// Gives sequence b a page of its own as block i, in which the next row can be written.
void KeyValueCache::make_own(std::int64_t b, std::int64_t i) {
  if (i == blocks_) {
    std::vector<std::int32_t> wider(table_.size() * 2);
    for (std::int64_t s = 0; s < batch(); ++s) {
      std::copy_n(&block(s, 0), blocks_, &wider[at(s * 2 * blocks_)]);
    }
    table_ = std::move(wider);
    blocks_ *= 2;
  }
  const std::int64_t used = lengths_[at(b)] - i * config_.page_rows;  // rows of this page
  if (used == 0) {
    block(b, i) = take_page();
    return;
  }
  const std::int32_t shared = block(b, i);
  if (uses_[at(shared)] == 1) return;
  const std::int32_t own = take_page();
  for (Tensor* storage : {&keys_, &values_}) {
    const TensorView from = std::as_const(*storage).view().select(0, shared).slice(1, 0, used);
    convert(from, storage->view().select(0, own).slice(1, 0, used));
  }
  drop_page(shared);
  block(b, i) = own;
}

std::int32_t KeyValueCache::take_page() {
  if (free_.empty()) {
    const std::int64_t pages = keys_.size(0), more = std::max<std::int64_t>(pages, 1);
    if (pages + more > std::numeric_limits<std::int32_t>::max())
      refuse("key/value cache", "{} pages are too many", pages + more);
    uses_.resize(at(pages + more));
    free_.reserve(uses_.size());
    Tensor values = enlarged(values_, pages + more);
    keys_ = enlarged(keys_, pages + more);
    values_ = std::move(values);
    for (std::int64_t page = pages + more - 1; page >= pages; --page) free_.push_back(static_cast<std::int32_t>(page));
  }
  const std::int32_t page = free_.back();
  free_.pop_back();
  uses_[at(page)] = 1;
  return page;
}

void KeyValueCache::drop_page(std::int32_t page) {
  if (--uses_[at(page)] == 0) free_.push_back(page);
}

void KeyValueCache::reorder(std::span<const std::int64_t> parents) {
  std::vector<std::int64_t> lengths;
  for (const std::int64_t parent : parents) {
    if (parent < 0 || parent >= batch())
      refuse("key/value cache", "there is no sequence {} in a batch of {}", parent, batch());
    lengths.push_back(length(parent));
  }
  reorder(parents, lengths);
}

void KeyValueCache::reorder(std::span<const std::int64_t> parents, std::span<const std::int64_t> lengths) {
  if (parents.size() != lengths.size()) {
    refuse("key/value cache", "{} parents have {} lengths", parents.size(), lengths.size());
  }
  for (std::size_t b = 0; b < parents.size(); ++b) {
    if (parents[b] < -1 || parents[b] >= batch())
      refuse("key/value cache", "there is no sequence {} in a batch of {}", parents[b], batch());
    const std::int64_t most = parents[b] < 0 ? 0 : length(parents[b]);
    if (lengths[b] < 0 || lengths[b] > most)
      refuse("key/value cache", "length {} must be from 0 to the {} tokens of sequence {}", lengths[b], most,
             parents[b]);
  }
  const auto end_of = [&](std::int64_t length) { return (length + config_.page_rows - 1) / config_.page_rows; };
  std::vector<std::int32_t> table(parents.size() * at(blocks_)), kept(lengths.begin(), lengths.end());
  std::vector<std::int64_t> dropped(parents.size());
  for (std::size_t b = 0; b < parents.size(); ++b) {
    const std::int64_t end = end_of(lengths[b]);
    dropped[b] = parents[b] < 0 ? 0 : std::min(dropped_[at(parents[b])], end);
    for (std::int64_t i = 0; i < end; ++i) {
      const std::int32_t page = table[b * at(blocks_) + at(i)] = block(parents[b], i);
      if (i >= dropped[b]) ++uses_[at(page)];
    }
  }
  for (std::int64_t b = 0; b < batch(); ++b) drop_blocks(b, end_of(length(b)));
  table_ = std::move(table);
  lengths_ = std::move(kept);
  dropped_ = std::move(dropped);
}

// Their places in the table stay: what reads them must not see what is there.
void KeyValueCache::drop_blocks(std::int64_t b, std::int64_t end) {
  for (std::int64_t& i = dropped_[at(b)]; i < end; ++i) drop_page(block(b, i));
}

void KeyValueCache::drop_before(std::int64_t b, std::int64_t first) {
  if (b < 0 || b >= batch() || first > length(b)) {
    refuse("key/value cache", "sequence {} of {} does not have {} tokens to drop", b, batch(), first);
  }
  drop_blocks(b, first / config_.page_rows);
}

void attention(const TensorView& q, const KeyValueCache& cache, const MutableTensorView& out, AttentionOptions options,
               const AttentionExtras& extras) {
  if (options.mask.align() == Align::top_left) {
    fail("over a cache the queries are the last ones: a mask must be aligned bottom-right, or not name an alignment");
  }
  options.block_table = cache.block_table();
  options.mask = options.mask & Mask::lengths(cache.lengths()) & Mask::window(-1, -1, Align::bottom_right);
  attention(q, cache.keys(), cache.values(), out, options, extras);
}

void attention_singly(const TensorView& q, const KeyValueCache& cache, const MutableTensorView& out,
                      AttentionOptions options, const AttentionExtras& extras) {
  const Tensor offsets = convert(options.offsets_query, Dtype::i64);
  const TensorView blocks = cache.block_table();
  std::vector<std::int32_t> table, lengths;
  for (std::int64_t b = 0; b < cache.batch(); ++b) {
    const std::int64_t first = offsets.data<std::int64_t>()[b], last = offsets.data<std::int64_t>()[b + 1];
    const std::int32_t* own = blocks.data<std::int32_t>() + b * blocks.size(1);
    for (std::int64_t row = first; row < last; ++row) {
      table.insert(table.end(), own, own + blocks.size(1));
      lengths.push_back(static_cast<std::int32_t>(cache.length(b) - (last - 1 - row)));
    }
  }
  const auto view_of = [](const std::vector<std::int32_t>& numbers, const Dims& shape) {
    return TensorView(reinterpret_cast<const std::byte*>(numbers.data()), Dtype::i32, shape);
  };
  const auto count = std::ssize(lengths);
  options.offsets_query = {};
  options.block_table = view_of(table, {count, blocks.size(1)});
  options.mask = options.mask & Mask::lengths(view_of(lengths, {count})) & Mask::window(-1, -1, Align::bottom_right);
  const auto apart = [](const auto& view) {
    return std::remove_cvref_t<decltype(view)>(view.bytes(), view.dtype(),
                                               {view.size(0), view.size(1), 1, view.size(2)},
                                               {view.stride(0), view.stride(1), view.stride(0), view.stride(2)});
  };
  attention(apart(q), cache.keys(), cache.values(), apart(out), options, extras);
}

}  // namespace qkv
