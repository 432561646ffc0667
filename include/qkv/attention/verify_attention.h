/// \file
/// Checks the accuracy of an output: recomputes some of its rows in double precision, by plain loops.
///
///     attention(q, k, v, out, options);
///     AttentionReceipt receipt = verify_attention(q, k, v, out, options, 64);    // of 64 rows
///
/// Takes O(rows x k_len) operations for each number of a key, and copies of q, k and v in f64.
#pragma once

#include <cstdint>

#include "qkv/api.h"
#include "qkv/attention.h"

namespace qkv {

struct AttentionReceipt {
  std::int64_t rows = 0;     ///< recomputed; at most as many as there are
  double worst_error = 0;    ///< largest |out - exact| over their elements; infinity if only one of the two is NaN
  double largest_value = 0;  ///< largest |exact|, to compare the error with
  std::int64_t sequence = 0, head = 0, query = 0;  ///< of the worst error
};

/// `out` is what attention() wrote for the same arguments. The rows are drawn at random from `seed`, each at most once.
/// std::invalid_argument as from attention(), and for rows below 0.
QKV_API AttentionReceipt verify_attention(const TensorView& q, const TensorView& k, const TensorView& v,
                                          const TensorView& out, const AttentionOptions& options = {},
                                          std::int64_t rows = 64, std::uint64_t seed = 1);

}  // namespace qkv
