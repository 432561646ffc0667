// Checks q, k, v, the offsets of packed rows, pages and lengths of keys, and brings them to one form.
#include "attention/call/attention_inputs.h"

#include <algorithm>
#include <utility>

#include "attention/call/view_checks.h"
#include "attention/options/mask_kinds.h"
#include "qkv/threads.h"

namespace qkv::inline attending {
namespace {

// std::invalid_argument unless k and v are pages, and the table numbers of pages.
void check_pages(const TensorView& k, const TensorView& v, const TensorView& block_table) {
  if (k.rank() != 4 || v.rank() != 4) {
    fail("paged key and value must be [pages, rows, kv_heads, size], got {} and {}", to_string(k.shape()),
         to_string(v.shape()));
  }
  for (int i = 0; i < 3; ++i) {
    if (k.size(i) != v.size(i)) {
      fail("paged key {} and value {} differ before the size", to_string(k.shape()), to_string(v.shape()));
    }
  }
  if (k.size(1) < 1 || k.size(1) > kMaxLength) {
    fail("pages must have 1 to {} rows, got key {}", kMaxLength, to_string(k.shape()));
  }
  if (block_table.dtype() != Dtype::i32 || block_table.rank() != 2) {
    fail("block_table must be i32 [batch, blocks], got {} {}", name_of(block_table.dtype()),
         to_string(block_table.shape()));
  }
  if (block_table.size(1) > kMaxLength / k.size(1)) {
    fail("{} blocks of {} keys exceed {}", block_table.size(1), k.size(1), kMaxLength);
  }
  require_unit_stride("block_table", block_table);
}

// std::invalid_argument for a key of the inputs' sequences without a page. `k`: the pages.
void check_block_table(const AttentionInputs& inputs, const TensorView& k, const TensorView& block_table) {
  if (block_table.size(0) != inputs.batch) {
    fail("block_table has {} rows for a batch of {}", block_table.size(0), inputs.batch);
  }
  const std::int64_t pages = k.size(0), rows = k.size(1);
  for (std::int64_t b = 0; b < inputs.batch; ++b) {
    const std::int32_t* page = block_table.data<std::int32_t>() + b * block_table.stride(0);
    for (std::int64_t block = 0; block * rows < inputs.key_length(b); ++block) {
      if (page[block] >= 0 && page[block] < pages) continue;
      fail("block_table[{}, {}] is {}; it must be 0 to {}, a page of key and value", b, block, page[block], pages - 1);
    }
  }
}

std::vector<std::int64_t> offsets(std::string_view name, const TensorView& view, std::int64_t rows) {
  std::vector<std::int64_t> values = integers(name, view);
  if (values.empty() || values.front() != 0 || values.back() != rows || !std::is_sorted(values.begin(), values.end())) {
    fail("{} must start at 0, never decrease, and end at the number of rows, {}", name, rows);
  }
  return values;
}

std::int64_t longest(const std::vector<std::int64_t>& offsets) {
  std::int64_t length = 0;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) length = std::max(length, offsets[b + 1] - offsets[b]);
  return length;
}

}  // namespace

AttentionInputs::AttentionInputs(const TensorView& q, const TensorView& k, const TensorView& v,
                                 const AttentionOptions& options)
    : memory_(options.memory_limit) {
  if (options.threads < 0) fail("threads must be 0 (default) or more");
  threads = std::min(options.threads > 0 ? options.threads : qkv::threads(), kMaxThreads);
  storage = q.dtype();
  accumulation = storage == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  if (!is_floating(storage)) fail("query has type {}; it must be f32, f64, bf16 or f16", name_of(storage));
  if (k.dtype() != storage || v.dtype() != storage) {
    fail("query, key and value must have one type, got {}, {} and {}", name_of(storage), name_of(k.dtype()),
         name_of(v.dtype()));
  }
  packed = static_cast<bool>(options.offsets_query);
  paged = static_cast<bool>(options.block_table);
  if (q.rank() < 2 || (!paged && (k.rank() != q.rank() || v.rank() != q.rank()))) {
    fail("query {}, key {} and value {} must have equal rank, at least 2: [..., heads, length, size]",
         to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
  }
  if (paged && options.offsets_key) fail("paged keys take a block table and no offsets_key; both were given");
  if (!paged && packed != static_cast<bool>(options.offsets_key)) {
    fail("packed rows need offsets for queries and for keys; only one was given");
  }
  if (packed && q.rank() != 3) fail("packed query must be [tokens, heads, size], got {}", to_string(q.shape()));

  // From here on packed rows are [heads, tokens, size] of a batch without dimensions of its own.
  const int rank = std::max(q.rank(), 3);
  q_ = packed ? q.transpose(0, 1) : with_rank(q, rank);
  if (paged) {
    check_pages(k, v, options.block_table);
    k_ = k.transpose(1, 2);
    v_ = v.transpose(1, 2);
    memory_.keep(static_cast<std::size_t>(options.block_table.element_count()) * size_of(Dtype::i32));
    block_table_ = Tensor::copy(options.block_table);
  } else {
    k_ = packed ? k.transpose(0, 1) : with_rank(k, rank);
    v_ = packed ? v.transpose(0, 1) : with_rank(v, rank);
  }
  for (int i = 0; i < rank - 3; ++i) batch_shape_.push_back(q_.size(i));
  batch = element_count(batch_shape_);
  heads = q_.size(-3);
  kv_heads = k_.size(-3);
  q_len = q_.size(-2);
  k_len = k_.size(-2);
  query_dim = q_.size(-1);
  key_dim = k_.size(-1);
  value_dim = v_.size(-1);
  if (!paged) {
    require_shape("key", k_, concatenate(batch_shape_, {kv_heads, k_len, key_dim}));
    require_shape("value", v_, concatenate(batch_shape_, {kv_heads, k_len, value_dim}));
  }
  if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0) {
    fail("{} query heads are not a multiple of {} key/value heads", heads, kv_heads);
  }
  for (const std::int64_t dim : {query_dim, key_dim, value_dim}) {
    if (dim < 1 || dim > kMaxDim) fail("head and value sizes must be 1 to {}, got {}", kMaxDim, dim);
  }
  if (is_dot_product(options.score.kind()) && key_dim != query_dim) {
    fail("key has head_dim {}, query has {} (query {}, key {})", key_dim, query_dim, to_string(q_.shape()),
         to_string(k_.shape()));
  }
  if (q_len > kMaxLength || k_len > kMaxLength) fail("lengths {} and {} exceed {}", q_len, k_len, kMaxLength);
  require_unit_stride("query", q_);
  require_unit_stride("key", k_);
  require_unit_stride("value", v_);

  if (packed) {
    offsets_query_ = offsets("offsets_query", options.offsets_query, q_len);
    batch = static_cast<std::int64_t>(offsets_query_.size()) - 1;
    q_len = longest(offsets_query_);
  }
  if (packed && !paged) {
    offsets_key_ = offsets("offsets_key", options.offsets_key, k_len);
    if (offsets_query_.size() != offsets_key_.size()) {
      fail("offsets_query has {} entries, offsets_key {}; both must be batch + 1", offsets_query_.size(),
           offsets_key_.size());
    }
    k_len = longest(offsets_key_);
  }
  memory_.keep((offsets_query_.capacity() + offsets_key_.capacity()) * sizeof(std::int64_t));
  check_lengths(options.mask);
  if (paged) check_block_table(*this, k, block_table_);
}

Dims AttentionInputs::query_shape() const { return concatenate(batch_shape_, {heads, q_.size(-2)}); }

Dims AttentionInputs::key_shape(std::int64_t of_heads) const {
  return concatenate(batch_shape_, {of_heads, packed ? k_.size(-2) : k_len});
}

TensorView AttentionInputs::brought_to(std::string_view name, const TensorView& view, const Dims& shape) const {
  const bool fits =
      packed ? view.rank() == shape.size() : view.rank() >= shape.size() - 1 && view.rank() <= shape.size();
  if (!fits) fail("{} {} has the wrong rank for query {}", name, to_string(view.shape()), to_string(q_.shape()));
  const TensorView brought = packed ? view.transpose(0, 1) : with_rank(view, shape.size());
  require_shape(name, brought, shape);
  return brought;
}

TensorView AttentionInputs::query_rows(std::string_view name, const TensorView& view, std::int64_t size) const {
  const TensorView rows = brought_to(name, view, concatenate(query_shape(), {size}));
  require_unit_stride(name, rows);
  return rows;
}

TensorView AttentionInputs::key_rows(std::string_view name, const TensorView& view, std::int64_t size) const {
  const TensorView rows = brought_to(name, view, concatenate(key_shape(kv_heads), {size}));
  require_unit_stride(name, rows);
  return rows;
}

TensorView AttentionInputs::query_scalars(std::string_view name, const TensorView& view) const {
  require_accumulation(name, view);
  return brought_to(name, view, query_shape());
}

TensorView AttentionInputs::key_scalars(std::string_view name, const TensorView& view) const {
  require_accumulation(name, view);
  return brought_to(name, view, key_shape(heads));
}

void AttentionInputs::require_accumulation(std::string_view name, const TensorView& view) const {
  if (!view) fail("{} is not given", name);
  if (view.dtype() != accumulation) fail("{} is {}; it must be {}", name, name_of(view.dtype()), name_of(accumulation));
}

void AttentionInputs::check_lengths(const Mask& mask) {
  std::vector<std::int64_t> lengths;
  for (const Mask::Part& part : parts_of(mask, MaskKind::lengths)) {
    const std::vector<std::int64_t> counts = sequence_counts("lengths", part.arrays[0], batch);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t count = counts[static_cast<std::size_t>(b)];
      if (count < 0 || count > key_length(b)) fail("lengths[{}] is {}; it must be 0 to {}", b, count, key_length(b));
    }
    memory_.keep(lengths.empty() ? 2 * counts.size() * sizeof(std::int64_t) : 0);  // and one more at a time
    keep_least(lengths, counts);
  }
  lengths_ = std::move(lengths);
  if (!paged) return;
  k_len = 0;
  for (std::int64_t b = 0; b < batch; ++b) k_len = std::max(k_len, key_length(b));
}

std::int64_t AttentionInputs::query_length(std::int64_t b) const {
  const auto at = static_cast<std::size_t>(b);
  return packed ? offsets_query_[at + 1] - offsets_query_[at] : q_len;
}

std::int64_t AttentionInputs::key_length(std::int64_t b) const {
  const auto at = static_cast<std::size_t>(b);
  if (paged) return lengths_.empty() ? block_table_.size(1) * k_.size(-2) : lengths_[at];
  return packed ? offsets_key_[at + 1] - offsets_key_[at] : k_len;
}

std::int64_t AttentionInputs::visible_length(std::int64_t b) const {
  return lengths_.empty() ? key_length(b) : lengths_[static_cast<std::size_t>(b)];
}

const std::byte* AttentionInputs::query_address(const TensorView& view, std::int64_t b, std::int64_t h) const {
  if (!packed) return head_address(view, batch_shape_, b, h);
  const std::int64_t offset = h * view.stride(0) + offsets_query_[static_cast<std::size_t>(b)] * view.stride(1);
  return view.bytes() + offset * static_cast<std::int64_t>(size_of(view.dtype()));
}

const std::byte* AttentionInputs::key_address(const TensorView& view, std::int64_t b, std::int64_t kv_head) const {
  if (!packed) return head_address(view, batch_shape_, b, kv_head);
  const std::int64_t offset = kv_head * view.stride(0) + offsets_key_[static_cast<std::size_t>(b)] * view.stride(1);
  return view.bytes() + offset * static_cast<std::int64_t>(size_of(view.dtype()));
}

Rows AttentionInputs::rows_of_queries(const TensorView& view, std::int64_t b, std::int64_t h) const {
  return {.data = query_address(view, b, h), .type = view.dtype(), .step = view.stride(-2)};
}

Rows AttentionInputs::rows_of_keys(const TensorView& view, std::int64_t b, std::int64_t kv_head) const {
  if (!paged) return {.data = key_address(view, b, kv_head), .type = view.dtype(), .step = view.stride(-2)};
  return {.data = view.bytes() + kv_head * view.stride(1) * static_cast<std::int64_t>(size_of(view.dtype())),
          .type = view.dtype(),
          .step = view.stride(-2),
          .pages = block_table_.data<std::int32_t>() + b * block_table_.size(1),
          .page_rows = view.size(-2),
          .page_step = view.stride(0)};
}

void AttentionInputs::set_rows(AttentionTask& task, std::int64_t b, std::int64_t h) const {
  const std::int64_t kv_head = h / (heads / kv_heads);
  task.query = rows_of_queries(q_, b, h);
  task.key = rows_of_keys(k_, b, kv_head);
  task.value = rows_of_keys(v_, b, kv_head);
  task.q_len = query_length(b);
  task.k_len = key_length(b);
  task.length = visible_length(b);
  task.sequence = b;
  task.head = h;
}

}  // namespace qkv::inline attending
