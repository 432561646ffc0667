/// \file
/// Who may attend to whom. Masks combine by `&`: a key is visible if every part lets it through.
///
///     Mask mask = Mask::causal(Align::bottom_right) & Mask::window(256, 0) & Mask::lengths(n);
///
/// Positions: query i has position p = i + offset, key j has j. Align::top_left has offset 0; Align::bottom_right has
/// offset key length - query length, of each sequence by itself. A call has one alignment, for all its parts: the one
/// that a part names, bottom_right over a cache, else top_left. It also rules ALiBi (bias.h).
/// A query that sees no key gives output 0, log-sum-exp -infinity (with a sink: the sink) and weights 0. The content of
/// a masked key or value, even NaN or infinity, never reaches the result. A call takes at most four boolean masks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/attention_function.h"
#include "qkv/tensor.h"

namespace qkv {

class BooleanBlocks;
class KeptDocuments;

enum class Align { top_left, bottom_right };

/// The functions of Mask that make a part, by name.
enum class MaskKind { causal, window, dilated, chunks, prefix, lengths, documents, boolean, function };

class QKV_API Mask {
 public:
  /// Every query sees every key.
  Mask() = default;

  /// Keys j <= p.
  static Mask causal(std::optional<Align> align = std::nullopt);
  /// Keys p - left <= j <= p + right; -1 leaves that side open.
  static Mask window(std::int64_t left, std::int64_t right, std::optional<Align> align = std::nullopt);
  /// A prefix that every query sees, and causal after it: keys j < counts[sequence] or j <= p. i32 or i64 [batch], from
  /// 0 upwards. Borrowed. Source: the prefix language model of Raffel et al. (T5, 2020); also GLM, PaliGemma.
  static Mask prefix(TensorView counts, std::optional<Align> align = std::nullopt);
  /// A dilated window: keys p - left * step <= j <= p + right * step with p - j divisible by step, which is 1 or more;
  /// -1 leaves that side open. Source: Beltagy, Peters, Cohan (Longformer, 2020).
  static Mask dilated(std::int64_t left, std::int64_t right, std::int64_t step,
                      std::optional<Align> align = std::nullopt);
  /// Keys of the query's own chunk: j / size = p / size, rounded down. size is 1 or more. Source: Llama 4 (Meta, 2025).
  static Mask chunks(std::int64_t size, std::optional<Align> align = std::nullopt);
  /// Keys j < counts[sequence]: i32 or i64 [batch]. The view is borrowed until the mask's last use.
  static Mask lengths(TensorView counts);
  /// Keys of the query's own document: ids are equal. i32 or i64, broadcastable to [batch, q_len] and [batch, k_len],
  /// packed [query tokens] and [key tokens]. Documents need not be contiguous; blocks of keys in which none of a block
  /// of queries has its document are skipped. Borrowed.
  static Mask documents(TensorView query_ids, TensorView key_ids);
  /// The same ids for queries and keys.
  static Mask documents(TensorView ids) { return documents(ids, ids); }
  /// Keys where `visible` is true: bool or u8 (0 = hidden), broadcastable to [batch, heads, q_len, k_len]. Borrowed.
  static Mask boolean(TensorView visible);

  /// Keys for which a user-defined function returns true.
  static Mask function(MaskFunction visible);

  friend QKV_API Mask operator&(Mask a, const Mask& b);

  /// The same mask, its boolean views read once: for every 16 queries and 8 keys it records whether all or none are
  /// visible, so that a kernel computes only what is visible. A call does this itself; compile a mask to use it in many
  /// calls. Takes 1/512 of the views' memory, shared with copies; the views must not change afterwards. `threads` as in
  /// AttentionOptions. Documents are read by the first call, which keeps at most 20 bytes per query and key for later
  /// calls with the same batch and lengths; other sizes replace them.
  Mask compiled(int threads = 0) const;
  bool is_compiled() const;

  /// For code that makes or applies any mask: a part, with the arguments of its function.
  struct Part {
    MaskKind kind;
    std::array<std::int64_t, 3> numbers{};
    std::array<TensorView, 2> arrays{};
    std::optional<MaskFunction> function{};
    std::shared_ptr<const BooleanBlocks> blocks{};  ///< nullptr: not compiled
  };
  /// As made by its function; documents without ids of keys use the queries' ids.
  explicit Mask(Part part, std::optional<Align> align = std::nullopt);
  const std::vector<Part>& parts() const { return parts_; }
  const std::optional<Align>& align() const { return align_; }
  /// For all documents together; nullptr: not compiled, or no documents.
  const std::shared_ptr<KeptDocuments>& kept_documents() const { return kept_documents_; }

 private:
  std::optional<Align> align_;
  std::vector<Part> parts_;
  std::shared_ptr<KeptDocuments> kept_documents_;
};

}  // namespace qkv
