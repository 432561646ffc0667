// Mask: its kinds, how they are checked and combined, and how boolean views and documents are compiled.
#include "qkv/attention/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "attention/options/compiled_mask.h"
#include "attention/options/mask_kinds.h"
#include "core/refuse.h"

namespace qkv {
inline namespace core {
namespace {

using Numbers = std::span<const std::int64_t>;
using Elements = std::span<const double>;

constexpr MaskNumber kSides[] = {{"left", -1}, {"right", -1}};
constexpr MaskNumber kSteps[] = {{"left", -1}, {"right", -1}, {"step", 1}};
constexpr MaskNumber kSize[] = {{"size", 1}};
constexpr const char* kIdsForm = "i32 or i64 [batch, length], packed [tokens]";
constexpr MaskArray kCounts[] = {{"counts", MaskArrayOf::sequences, "i32 or i64 [batch]"}};
constexpr MaskArray kIds[] = {{"query_ids", MaskArrayOf::queries, kIdsForm}, {"key_ids", MaskArrayOf::keys, kIdsForm}};
constexpr MaskArray kVisible[] = {
    {"visible", MaskArrayOf::pairs, "bool or u8, 0 = hidden, broadcastable to [batch, heads, q_len, k_len]"}};

// No query and key of a call are so far apart.
constexpr std::int64_t kFarthest = std::int64_t{1} << 32;

// Keys that a side of so many steps reaches over.
std::int64_t keys_of(std::int64_t side, std::int64_t step) {
  return side < 1 ? side : side > kFarthest / step ? kFarthest : side * step;
}

bool is_within(double distance, std::int64_t side, std::int64_t step) {
  return side < 0 || distance <= static_cast<double>(side) * static_cast<double>(step);
}

bool sees_dilated(std::int64_t left, std::int64_t right, std::int64_t step, double position, double key) {
  return is_within(position - key, left, step) && is_within(key - position, right, step) &&
         std::fmod(position - key, static_cast<double>(step)) == 0;
}

// "more than 2 before itself or more than 0 after itself"; empty: both are open.
std::string beyond(std::int64_t left, std::int64_t right) {
  std::string text = left < 0 ? "" : fmt::format("more than {} before itself", left);
  if (left >= 0 && right >= 0) text += " or ";
  return right < 0 ? text : text + fmt::format("more than {} after itself", right);
}

std::string window_words(Numbers n, Elements) {
  const std::string far = beyond(n[0], n[1]);
  return far.empty() ? "Window: a query sees every key." : fmt::format("Window: a query sees no key {}.", far);
}

std::string dilated_words(Numbers n, Elements none) {
  if (n[2] == 1) return window_words(n, none);
  const auto [step, far] = std::pair(n[2], beyond(keys_of(n[0], n[2]), keys_of(n[1], n[2])));
  return fmt::format("Dilated window: a query sees every key whose distance is a multiple of {}{}.", step,
                     far.empty() ? "" : ", but none " + far);
}

constexpr MaskDescription kKinds[] = {
    {MaskKind::causal,
     "causal",
     true,
     {},
     {},
     "keys j <= p",
     [](Numbers, Elements) { return std::string("Look-ahead mask: a query sees no key after itself."); },
     [](Numbers, Elements, double position, double key) { return key <= position; }},
    {MaskKind::window,
     "window",
     true,
     kSides,
     {},
     "keys p - left <= j <= p + right; -1 leaves that side open",
     window_words,
     [](Numbers side, Elements, double position, double key) {
       return sees_dilated(side[0], side[1], 1, position, key);
     }},
    {MaskKind::dilated,
     "dilated",
     true,
     kSteps,
     {},
     "keys p - left * step <= j <= p + right * step with p - j divisible by step; -1 leaves that side open",
     dilated_words,
     [](Numbers n, Elements, double position, double key) { return sees_dilated(n[0], n[1], n[2], position, key); }},
    {MaskKind::chunks,
     "chunks",
     true,
     kSize,
     {},
     "keys of its own chunk: j / size = p / size, rounded down",
     [](Numbers n, Elements) { return fmt::format("Chunks: a query sees no key outside its own chunk of {}.", n[0]); },
     [](Numbers n, Elements, double position, double key) {
       return std::floor(position / static_cast<double>(n[0])) == std::floor(key / static_cast<double>(n[0]));
     }},
    {MaskKind::prefix,
     "prefix",
     true,
     {},
     kCounts,
     "keys j < counts[sequence] or j <= p: a prefix visible to all queries, causal after it",
     [](Numbers, Elements count) {
       return fmt::format("Prefix: all see the first {} keys; beyond them a query sees no key after itself.", count[0]);
     },
     [](Numbers, Elements count, double position, double key) { return key < count[0] || key <= position; }},
    {MaskKind::lengths,
     "lengths",
     false,
     {},
     kCounts,
     "keys j < counts[sequence]",
     [](Numbers, Elements count) { return fmt::format("Length: a query sees the first {} keys.", count[0]); },
     [](Numbers, Elements count, double, double key) { return key < count[0]; }},
    {MaskKind::documents,
     "documents",
     false,
     {},
     kIds,
     "keys of the query's own document: ids are equal",
     [](Numbers, Elements) { return std::string("Documents: a query sees the keys of its own document."); },
     [](Numbers, Elements id, double, double) { return id[0] == id[1]; }},
    {MaskKind::boolean,
     "boolean",
     false,
     {},
     kVisible,
     "keys where visible is true",
     [](Numbers, Elements) { return std::string("The mask given: 0 hides a key."); },
     [](Numbers, Elements visible, double, double) { return visible[0] != 0; }},
};

// The smallest step that both divide, or one that leaves only the query's own position.
std::int64_t common_step(std::int64_t a, std::int64_t b) {
  const std::int64_t part = a / std::gcd(a, b);
  return part > kFarthest / b ? kFarthest : part * b;
}

// The tighter of two bounds, where -1 is none.
std::int64_t tighter(std::int64_t a, std::int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

}  // namespace

std::span<const MaskDescription> mask_kinds() { return kKinds; }

const MaskDescription& description_of(MaskKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

MaskBounds bounds_of(const Mask& mask) {
  MaskBounds bounds;
  const auto narrow = [&](std::int64_t left, std::int64_t right, std::int64_t step) {
    bounds.left = tighter(bounds.left, left);
    bounds.right = tighter(bounds.right, right);
    bounds.step = common_step(bounds.step, step);
  };
  for (const Mask::Part& part : mask.parts()) {
    const auto [left, right, step] = part.numbers;
    if (part.kind == MaskKind::causal) narrow(-1, 0, 1);
    if (part.kind == MaskKind::window) narrow(left, right, 1);
    if (part.kind == MaskKind::chunks) bounds.chunks.push_back(part.numbers[0]);
    if (part.kind == MaskKind::dilated) narrow(keys_of(left, step), keys_of(right, step), std::min(step, kFarthest));
  }
  return bounds;
}

}  // namespace core

Mask::Mask(Part part, std::optional<Align> align) : align_(align) {
  if (part.kind != MaskKind::function) {
    const MaskDescription& description = description_of(part.kind);
    for (std::size_t n = 0; n < description.numbers.size(); ++n) {
      const auto& [name, least] = description.numbers[n];
      refuse_unless(part.numbers[n] >= least, description.name, "{} is {}; it must be {} or more", name,
                    part.numbers[n], least < 0 ? "-1 (open)" : std::to_string(least));
    }
  }
  if (part.kind == MaskKind::documents && !part.arrays[1]) part.arrays[1] = part.arrays[0];
  parts_.push_back(std::move(part));
}

Mask Mask::causal(std::optional<Align> align) { return Mask({.kind = MaskKind::causal}, align); }

Mask Mask::window(std::int64_t left, std::int64_t right, std::optional<Align> align) {
  return Mask({.kind = MaskKind::window, .numbers = {left, right}}, align);
}

Mask Mask::prefix(TensorView counts, std::optional<Align> align) {
  return Mask({.kind = MaskKind::prefix, .arrays = {counts}}, align);
}

Mask Mask::dilated(std::int64_t left, std::int64_t right, std::int64_t step, std::optional<Align> align) {
  return Mask({.kind = MaskKind::dilated, .numbers = {left, right, step}}, align);
}

Mask Mask::chunks(std::int64_t size, std::optional<Align> align) {
  return Mask({.kind = MaskKind::chunks, .numbers = {size}}, align);
}

Mask Mask::lengths(TensorView counts) { return Mask({.kind = MaskKind::lengths, .arrays = {counts}}); }

Mask Mask::documents(TensorView query_ids, TensorView key_ids) {
  return Mask({.kind = MaskKind::documents, .arrays = {query_ids, key_ids}});
}

Mask Mask::boolean(TensorView visible) { return Mask({.kind = MaskKind::boolean, .arrays = {visible}}); }

Mask Mask::function(MaskFunction visible) { return Mask({.kind = MaskKind::function, .function = std::move(visible)}); }

Mask Mask::compiled(int threads) const {
  Mask mask = *this;
  bool has_documents = false;
  for (Part& part : mask.parts_) {
    has_documents = has_documents || part.kind == MaskKind::documents;
    if (part.kind == MaskKind::boolean && part.blocks == nullptr) {
      part.blocks = std::make_shared<BooleanBlocks>(part.arrays[0], threads);
    }
  }
  if (has_documents && kept_documents_ == nullptr) mask.kept_documents_ = std::make_shared<KeptDocuments>();
  return mask;
}

bool Mask::is_compiled() const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.kind == MaskKind::boolean     ? part.blocks != nullptr
           : part.kind == MaskKind::documents ? kept_documents_ != nullptr
                                              : true;
  });
}

Mask operator&(Mask a, const Mask& b) {
  if (a.align_ && b.align_ && *a.align_ != *b.align_) {
    refuse("mask", "one part is aligned top-left, another bottom-right; a call has one alignment");
  }
  if (b.align_) a.align_ = b.align_;
  // What was made of one mask's documents does not tell which ids both masks share.
  const auto has_documents = [](const Mask& mask) { return !parts_of(mask, MaskKind::documents).empty(); };
  if (has_documents(b)) a.kept_documents_ = has_documents(a) ? nullptr : b.kept_documents_;
  a.parts_.insert(a.parts_.end(), b.parts_.begin(), b.parts_.end());
  return a;
}

}  // namespace qkv
