#include "kernels/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "kernels/view_checks.h"

namespace qkv {
namespace {

constexpr std::int64_t kMaxDim = 1024;  // of heads, values and the hidden layer of additive scores
constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;

std::vector<std::int64_t> offsets(std::string_view name, const TensorView& view, std::int64_t rows) {
  std::vector<std::int64_t> values = integers(name, view);
  if (values.empty() || values.front() != 0 || values.back() != rows || !std::is_sorted(values.begin(), values.end())) {
    fail("{} must begin with 0, never fall, and end with the {} rows it divides", name, rows);
  }
  return values;
}

std::int64_t longest(const std::vector<std::int64_t>& offsets) {
  std::int64_t length = 0;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) length = std::max(length, offsets[b + 1] - offsets[b]);
  return length;
}

}  // namespace

AttentionProblem::AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v,
                                   const AttentionOptions& options)
    : score_(options.score) {
  storage = q.dtype();
  accumulation = storage == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  if (!is_floating(storage)) fail("q has type {}; it must be f32, f64, bf16 or f16", name_of(storage));
  if (k.dtype() != storage || v.dtype() != storage) {
    fail("q, k and v must have one type, got {}, {} and {}", name_of(storage), name_of(k.dtype()), name_of(v.dtype()));
  }
  if (q.rank() < 2 || k.rank() != q.rank() || v.rank() != q.rank()) {
    fail("q {}, k {} and v {} must have equal rank, at least 2", to_string(q.shape()), to_string(k.shape()),
         to_string(v.shape()));
  }
  if (static_cast<bool>(options.offsets_query) != static_cast<bool>(options.offsets_key)) {
    fail("packed rows need offsets for queries and for keys, only one was given");
  }
  packed = static_cast<bool>(options.offsets_query);
  if (packed && q.rank() != 3) fail("packed q must be [tokens, heads, size], got {}", to_string(q.shape()));

  // From here on packed rows are [heads, tokens, size] of a batch without dimensions of its own.
  const int rank = std::max(q.rank(), 3);
  q_ = packed ? q.transpose(0, 1) : with_rank(q, rank);
  k_ = packed ? k.transpose(0, 1) : with_rank(k, rank);
  v_ = packed ? v.transpose(0, 1) : with_rank(v, rank);
  for (int i = 0; i < rank - 3; ++i) batch_shape_.push_back(q_.size(i));
  batch = element_count(batch_shape_);
  heads = q_.size(-3);
  kv_heads = k_.size(-3);
  q_len = q_.size(-2);
  k_len = k_.size(-2);
  query_dim = q_.size(-1);
  key_dim = k_.size(-1);
  value_dim = v_.size(-1);
  require_shape("k", k_, concatenate(batch_shape_, {kv_heads, k_len, key_dim}));
  require_shape("v", v_, concatenate(batch_shape_, {kv_heads, k_len, value_dim}));
  if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0) {
    fail("{} query heads are not a multiple of {} key/value heads", heads, kv_heads);
  }
  for (const std::int64_t dim : {query_dim, key_dim, value_dim}) {
    if (dim < 1 || dim > kMaxDim) fail("head and value sizes must be 1 to {}, got {}", kMaxDim, dim);
  }
  if (q_len > kMaxLength || k_len > kMaxLength) fail("lengths {} and {} exceed {}", q_len, k_len, kMaxLength);
  require_unit_stride("q", q_);
  require_unit_stride("k", k_);
  require_unit_stride("v", v_);

  if (packed) {
    offsets_query_ = offsets("offsets_query", options.offsets_query, q_len);
    offsets_key_ = offsets("offsets_key", options.offsets_key, k_len);
    if (offsets_query_.size() != offsets_key_.size()) {
      fail("offsets_query has {} entries, offsets_key {}; both must be batch + 1", offsets_query_.size(),
           offsets_key_.size());
    }
    batch = static_cast<std::int64_t>(offsets_query_.size()) - 1;
    q_len = longest(offsets_query_);
    k_len = longest(offsets_key_);
  }

  check_score(options.score);
  const bool scaled = options.score.kind() == Score::Kind::scaled_dot;
  scale_ = options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(query_dim)) : 1.0);
  if (!std::isfinite(scale_)) fail("scale must be finite, got {}", scale_);
  soft_cap_ = options.soft_cap;
  if (!(soft_cap_ >= 0) || !std::isfinite(soft_cap_))
    fail("soft_cap must be finite, 0 (off) or more, got {}", soft_cap_);
  rules_ = AttentionRules(*this, options);
}

Dims AttentionProblem::query_shape() const { return concatenate(batch_shape_, {heads, q_.size(-2)}); }

Dims AttentionProblem::key_shape() const { return concatenate(batch_shape_, {kv_heads, k_.size(-2)}); }

TensorView AttentionProblem::brought_to(std::string_view name, const TensorView& view, const Dims& shape) const {
  const bool fits =
      packed ? view.rank() == shape.size() : view.rank() >= shape.size() - 1 && view.rank() <= shape.size();
  if (!fits) fail("{} {} has the wrong rank for q {}", name, to_string(view.shape()), to_string(q_.shape()));
  const TensorView brought = packed ? view.transpose(0, 1) : with_rank(view, shape.size());
  require_shape(name, brought, shape);
  return brought;
}

TensorView AttentionProblem::query_rows(std::string_view name, const TensorView& view, std::int64_t size) const {
  const TensorView rows = brought_to(name, view, concatenate(query_shape(), {size}));
  require_unit_stride(name, rows);
  return rows;
}

TensorView AttentionProblem::key_rows(std::string_view name, const TensorView& view, std::int64_t size) const {
  const TensorView rows = brought_to(name, view, concatenate(key_shape(), {size}));
  require_unit_stride(name, rows);
  return rows;
}

TensorView AttentionProblem::query_scalars(std::string_view name, const TensorView& view) const {
  const TensorView scalars = brought_to(name, view, query_shape());
  if (scalars.dtype() != accumulation) {
    fail("{} is {}; it must be {}", name, name_of(scalars.dtype()), name_of(accumulation));
  }
  return scalars;
}

void AttentionProblem::check_score(const Score& score) {
  const auto require = [&](std::string_view name, const TensorView& view, const Dims& shape) {
    require_shape(name, view, shape);
    require_unit_stride(name, view);
    if (view.dtype() != accumulation) {
      fail("{} is {}; for {} inputs it must be {}", name, name_of(view.dtype()), name_of(storage),
           name_of(accumulation));
    }
    if (view.size(0) < 1 || view.size(0) > kMaxDim)
      fail("{} {}: sizes must be 1 to {}", name, to_string(shape), kMaxDim);
  };
  switch (score.kind()) {
    case Score::Kind::scaled_dot:
    case Score::Kind::dot:
      if (key_dim != query_dim) {
        fail("k has head_dim {}, q has {} (q {}, k {})", key_dim, query_dim, to_string(q_.shape()),
             to_string(k_.shape()));
      }
      break;
    case Score::Kind::bilinear:
      require("score w", score.w_query(), {query_dim, key_dim});
      break;
    case Score::Kind::additive:
      require("score w_query", score.w_query(), {score.v().size(0), query_dim});
      require("score w_key", score.w_key(), {score.v().size(0), key_dim});
      require("score v", score.v(), {score.v().size(0)});
      break;
    case Score::Kind::concat:
      require("score w", score.w_query(), {score.v().size(0), query_dim + key_dim});
      require("score v", score.v(), {score.v().size(0)});
      break;
  }
}

std::int64_t AttentionProblem::query_length(std::int64_t b) const {
  const auto at = static_cast<std::size_t>(b);
  return packed ? offsets_query_[at + 1] - offsets_query_[at] : q_len;
}

std::int64_t AttentionProblem::key_length(std::int64_t b) const {
  const auto at = static_cast<std::size_t>(b);
  return packed ? offsets_key_[at + 1] - offsets_key_[at] : k_len;
}

const std::byte* AttentionProblem::query_address(const TensorView& view, std::int64_t b, std::int64_t h) const {
  if (!packed) return head_address(view, batch_shape_, b, h);
  const std::int64_t offset = h * view.stride(0) + offsets_query_[static_cast<std::size_t>(b)] * view.stride(1);
  return view.bytes() + offset * static_cast<std::int64_t>(size_of(view.dtype()));
}

const std::byte* AttentionProblem::key_address(const TensorView& view, std::int64_t b, std::int64_t kv_head) const {
  if (!packed) return head_address(view, batch_shape_, b, kv_head);
  const std::int64_t offset = kv_head * view.stride(0) + offsets_key_[static_cast<std::size_t>(b)] * view.stride(1);
  return view.bytes() + offset * static_cast<std::int64_t>(size_of(view.dtype()));
}

AttentionTask AttentionProblem::task(std::int64_t b, std::int64_t h) const {
  AttentionTask task;
  const std::int64_t kv_head = h / (heads / kv_heads);
  task.query = {query_address(q_, b, h), q_.stride(-2)};
  task.key = {key_address(k_, b, kv_head), k_.stride(-2)};
  task.value = {key_address(v_, b, kv_head), v_.stride(-2)};
  task.q_len = query_length(b);
  task.k_len = key_length(b);
  task.query_dim = query_dim;
  task.key_dim = key_dim;
  task.value_dim = value_dim;
  task.scale = scale_;
  task.soft_cap = soft_cap_;

  task.score = score_.kind();
  if (score_.v()) task.hidden = score_.v().size(0);
  if (score_.w_query()) task.score_w_query = {score_.w_query().bytes(), score_.w_query().stride(0)};
  if (score_.w_key()) task.score_w_key = {score_.w_key().bytes(), score_.w_key().stride(0)};
  if (score_.kind() == Score::Kind::concat) {
    const auto skipped = query_dim * static_cast<std::int64_t>(size_of(accumulation));
    task.score_w_key = {task.score_w_query.data + skipped, task.score_w_query.step};
  }
  task.score_v = score_.v().bytes();

  rules_.set(task, b, h);
  set_places_of(task, b, h);
  return task;
}

}  // namespace qkv
