#include "kernels/documents.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "kernels/attention_problem.h"
#include "kernels/view_checks.h"

namespace qkv {
namespace {

// The ids of all sequences, one after the other, from a view that broadcasts to this shape.
std::vector<std::int64_t> read_ids(std::string_view name, const TensorView& view, const Dims& shape) {
  if (view.dtype() != Dtype::i32 && view.dtype() != Dtype::i64) {
    fail("{} must be i32 or i64, got {}", name, name_of(view.dtype()));
  }
  const Tensor ids = convert(broadcast(name, view, shape), Dtype::i64);
  return {ids.data<std::int64_t>(), ids.data<std::int64_t>() + ids.element_count()};
}

// Where each sequence begins, and the end of the last.
template <class Length>
std::vector<std::int64_t> starts_of(std::int64_t batch, const Length& length) {
  std::vector<std::int64_t> starts{0};
  for (std::int64_t b = 0; b < batch; ++b) starts.push_back(starts.back() + length(b));
  return starts;
}

}  // namespace

Documents::Documents(const AttentionProblem& problem, const std::vector<Mask::DocumentIds>& masks) {
  if (masks.empty()) return;
  const bool packed_keys = problem.packed && !problem.paged;
  query_starts_ = starts_of(problem.batch,
                            [&](std::int64_t b) { return problem.packed ? problem.query_length(b) : problem.q_len; });
  key_starts_ =
      starts_of(problem.batch, [&](std::int64_t b) { return packed_keys ? problem.key_length(b) : problem.k_len; });
  Ids all;
  for (const Mask::DocumentIds& mask : masks) {
    Ids ids{read_ids("query documents", mask.query,
                     problem.packed ? Dims{query_starts_.back()} : concatenate(problem.mask_batch(), {problem.q_len})),
            read_ids("key documents", mask.key,
                     packed_keys ? Dims{key_starts_.back()} : concatenate(problem.mask_batch(), {problem.k_len}))};
    if (&mask == &masks.front()) {
      all = std::move(ids);
      continue;
    }
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> pairs;
    const auto join = [&](std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = pairs.try_emplace({a[i], b[i]}, static_cast<std::int64_t>(pairs.size())).first->second;
      }
    };
    join(all.query, ids.query);
    join(all.key, ids.key);
  }
  keys_.resize(all.query.size());
  query_numbers_.resize(all.query.size());
  key_numbers_.resize(all.key.size());
  scattered_.resize(static_cast<std::size_t>(problem.batch));
  for (std::int64_t b = 0; b < problem.batch; ++b) compile(all, b);
}

void Documents::compile(const Ids& ids, std::int64_t b) {
  const auto at = static_cast<std::size_t>(b);
  const std::int64_t key_begin = key_starts_[at], key_end = key_starts_[at + 1];
  // Runs of keys of one document, of which there are few; then, sorted by id, one span per document.
  struct Span {
    std::int64_t id;
    KeyRange keys;
  };
  std::vector<Span> runs, spans;
  for (std::int64_t j = key_begin; j < key_end; ++j) {
    const std::int64_t id = ids.key[static_cast<std::size_t>(j)], key = j - key_begin;
    if (runs.empty() || runs.back().id != id) runs.push_back({id, {key, key}});
    runs.back().keys.last = key + 1;
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Span& x, const Span& y) { return x.id < y.id; });
  for (const Span& run : runs) {
    if (spans.empty() || spans.back().id != run.id) spans.push_back(run);
    spans.back().keys.last = run.keys.last;
  }
  scattered_[at] = spans.size() < runs.size();

  // The number of an id among the spans, -1 for none; neighbours mostly share one.
  std::int64_t last_id = 0, last_number = -1;
  bool begun = false;
  const auto number_of = [&](std::int64_t id) {
    if (begun && id == last_id) return last_number;
    const auto span = std::lower_bound(spans.begin(), spans.end(), id,
                                       [](const Span& x, std::int64_t wanted) { return x.id < wanted; });
    begun = true;
    last_id = id;
    last_number = span != spans.end() && span->id == id ? span - spans.begin() : -1;
    return last_number;
  };
  for (std::int64_t i = query_starts_[at]; i < query_starts_[at + 1]; ++i) {
    const auto query = static_cast<std::size_t>(i);
    const std::int64_t number = number_of(ids.query[query]);
    query_numbers_[query] = static_cast<std::int32_t>(number);
    keys_[query] = number < 0 ? KeyRange{0, 0} : spans[static_cast<std::size_t>(number)].keys;
  }
  for (std::int64_t j = key_begin; scattered_[at] && j < key_end; ++j) {
    const auto key = static_cast<std::size_t>(j);
    key_numbers_[key] = static_cast<std::int32_t>(number_of(ids.key[key]));
  }
}

void Documents::set(AttentionTask& task, std::int64_t b) const {
  if (keys_.empty()) return;
  const auto at = static_cast<std::size_t>(b);
  task.document_keys = keys_.data() + query_starts_[at];
  if (!scattered_[at]) return;
  task.query_documents = query_numbers_.data() + query_starts_[at];
  task.key_documents = key_numbers_.data() + key_starts_[at];
}

}  // namespace qkv
