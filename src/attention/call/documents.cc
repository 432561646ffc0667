// Sorts the ids of documents into intervals of keys per query.
#include "attention/call/documents.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "attention/call/view_checks.h"
#include "attention/options/compiled_mask.h"
#include "attention/options/mask_kinds.h"

namespace qkv::inline attending {
namespace {

// A node of the map that joins the ids of two masks.
constexpr std::size_t kPairBytes = 4 * sizeof(void*) + 3 * sizeof(std::int64_t);

// The ids of all sequences, one after the other, from a view that broadcasts to this shape.
KeptVector<std::int64_t> read_ids(std::string_view name, const TensorView& view, const Dims& shape) {
  if (view.dtype() != Dtype::i32 && view.dtype() != Dtype::i64) {
    fail("{} must be i32 or i64, got {}", name, name_of(view.dtype()));
  }
  const TensorView given = broadcast(name, view, shape);
  KeptVector<std::int64_t> ids(static_cast<std::size_t>(given.element_count()));
  convert(given, MutableTensorView(reinterpret_cast<std::byte*>(ids.data()), Dtype::i64, given.shape()));
  return ids;
}

// Where each sequence begins, and the end of the last.
template <class Length>
std::vector<std::int64_t> starts_of(std::int64_t batch, const Length& length) {
  std::vector<std::int64_t> starts{0};
  starts.reserve(static_cast<std::size_t>(batch + 1));
  for (std::int64_t b = 0; b < batch; ++b) starts.push_back(starts.back() + length(b));
  return starts;
}

}  // namespace

Documents::Sizes::Sizes(const AttentionInputs& inputs) {
  const bool packed_keys = inputs.packed && !inputs.paged;
  query_starts =
      starts_of(inputs.batch, [&](std::int64_t b) { return inputs.packed ? inputs.query_length(b) : inputs.q_len; });
  key_starts =
      starts_of(inputs.batch, [&](std::int64_t b) { return packed_keys ? inputs.key_length(b) : inputs.k_len; });
  query = inputs.packed ? Dims{query_starts.back()} : concatenate(inputs.mask_batch(), {inputs.q_len});
  key = packed_keys ? Dims{key_starts.back()} : concatenate(inputs.mask_batch(), {inputs.k_len});
}

std::shared_ptr<const Documents> Documents::of(const AttentionInputs& inputs, const Mask& mask, MemoryCount& memory) {
  if (parts_of(mask, MaskKind::documents).empty()) return nullptr;
  Sizes sizes(inputs);
  KeptDocuments* const kept = mask.kept_documents().get();
  if (kept != nullptr) {
    if (auto documents = kept->get(); documents != nullptr && documents->sizes_ == sizes) {
      memory.borrow(sizes.bytes());
      return documents;
    }
  }
  std::shared_ptr<const Documents> documents(new Documents(std::move(sizes), mask, memory));
  if (kept != nullptr) kept->set(documents);
  return documents;
}

Documents::Documents(Sizes sizes, const Mask& mask, MemoryCount& memory) : sizes_(std::move(sizes)) {
  const auto queries = static_cast<std::size_t>(sizes_.query_starts.back());
  const auto keys = static_cast<std::size_t>(sizes_.key_starts.back());
  memory.keep(sizes_.bytes());
  memory.keep(queries * (sizeof(KeyRange) + sizeof(std::int32_t)) + keys * sizeof(std::int32_t));
  const std::size_t ids_bytes = (queries + keys) * sizeof(std::int64_t);
  memory.borrow(ids_bytes);
  Ids all;
  bool is_first = true;
  for (const Mask::Part& part : parts_of(mask, MaskKind::documents)) {
    if (!is_first) memory.borrow((queries + keys) * (2 * sizeof(std::int64_t) + kPairBytes));
    Ids ids{read_ids("query documents", part.arrays[0], sizes_.query),
            read_ids("key documents", part.arrays[1], sizes_.key)};
    if (std::exchange(is_first, false)) {
      all = std::move(ids);
      continue;
    }
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> pairs;
    const auto join = [&](KeptVector<std::int64_t>& a, const KeptVector<std::int64_t>& b) {
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
  const auto batch = std::ssize(sizes_.query_starts) - 1;
  scattered_.resize(static_cast<std::size_t>(batch));
  for (std::int64_t b = 0; b < batch; ++b) compile(all, b, memory);
}

void Documents::compile(const Ids& ids, std::int64_t b, MemoryCount& memory) {
  const auto at = static_cast<std::size_t>(b);
  const std::int64_t key_begin = sizes_.key_starts[at], key_end = sizes_.key_starts[at + 1];
  // Runs of keys of one document, of which there are few; then, sorted by id, one span per document.
  struct Span {
    std::int64_t id;
    KeyRange keys;
  };
  const auto id_of = [&](std::int64_t j) { return ids.key[static_cast<std::size_t>(j)]; };
  std::size_t count = 0;
  for (std::int64_t j = key_begin; j < key_end; ++j) count += j == key_begin || id_of(j) != id_of(j - 1) ? 1 : 0;
  // The ids are still there, and a stable sort takes half a copy.
  memory.borrow((ids.query.size() + ids.key.size()) * sizeof(std::int64_t) + (count + (count + 1) / 2) * sizeof(Span));
  KeptVector<Span> spans;
  spans.reserve(count);
  for (std::int64_t j = key_begin; j < key_end; ++j) {
    const std::int64_t key = j - key_begin;
    if (key == 0 || id_of(j) != id_of(j - 1)) spans.push_back({id_of(j), {key, key}});
    spans.back().keys.last = key + 1;
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& x, const Span& y) { return x.id < y.id; });
  std::size_t documents = 0;
  for (const Span& run : spans) {
    if (documents > 0 && spans[documents - 1].id == run.id) {
      spans[documents - 1].keys.last = run.keys.last;
    } else {
      spans[documents++] = run;
    }
  }
  scattered_[at] = documents < spans.size();
  spans.resize(documents);

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
  for (std::int64_t i = sizes_.query_starts[at]; i < sizes_.query_starts[at + 1]; ++i) {
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
  const auto at = static_cast<std::size_t>(b);
  task.document_keys = keys_.data() + sizes_.query_starts[at];
  if (!scattered_[at]) return;
  task.query_documents = query_numbers_.data() + sizes_.query_starts[at];
  task.key_documents = key_numbers_.data() + sizes_.key_starts[at];
}

}  // namespace qkv::inline attending
