// verify_attention(): draws rows and compares them with the reference.
#include "qkv/attention/verify_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "attention/call/attention_call.h"
#include "attention/call/view_checks.h"
#include "qkv/random.h"
#include "qkv/stop.h"
#include "reference/attention.h"

namespace qkv {
namespace {

// Different numbers below `all`, in rising order (Floyd's sampling: Bentley and Floyd, "A sample of brilliance", 1987).
std::set<std::int64_t> sample(std::int64_t count, std::int64_t all, std::uint64_t seed) {
  Random random(seed);
  std::set<std::int64_t> chosen;
  for (std::int64_t i = all - std::min(count, all); i < all; ++i) {
    const auto drawn = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(i) + 1));
    chosen.insert(chosen.contains(drawn) ? i : drawn);
  }
  return chosen;
}

double error_of(double value, double exact) {
  if (value == exact || (std::isnan(value) && std::isnan(exact))) return 0;
  const double error = std::abs(value - exact);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

AttentionReceipt verify_attention(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                                  const AttentionOptions& options, std::int64_t rows, std::uint64_t seed) {
  const StopScope stop(options.stop);
  if (rows < 0) fail("the rows to verify must be 0 or more, got {}", rows);
  const AttentionCall call(q, k, v, options);
  const TensorView found = call.query_rows("out", out, call.value_dim);
  std::vector<std::int64_t> starts{0};  // of the queries of each sequence, of one head
  for (std::int64_t b = 0; b < call.batch; ++b) starts.push_back(starts.back() + call.query_length(b));
  std::vector<reference::RowIndex> chosen;
  for (const std::int64_t row : sample(rows, starts.back() * call.heads, seed)) {
    const std::int64_t query = row / call.heads;
    const std::int64_t b = std::upper_bound(starts.begin(), starts.end(), query) - starts.begin() - 1;
    chosen.push_back({b, row % call.heads, query - starts[static_cast<std::size_t>(b)]});
  }

  AttentionReceipt receipt{.rows = static_cast<std::int64_t>(chosen.size())};
  if (chosen.empty()) return receipt;
  const Tensor exact = reference::attention_rows(q, k, v, options, chosen);
  for (std::size_t n = 0; n < chosen.size(); ++n) {
    const auto& [b, head, query] = chosen[n];
    const std::byte* row = call.query_address(found, b, head) +
                           query * found.stride(-2) * static_cast<std::int64_t>(size_of(found.dtype()));
    const Tensor values = convert(TensorView(row, found.dtype(), {call.value_dim}), Dtype::f64);
    for (std::int64_t e = 0; e < call.value_dim; ++e) {
      const double right = exact.view().at<double>({static_cast<std::int64_t>(n), e});
      if (std::isfinite(right)) receipt.largest_value = std::max(receipt.largest_value, std::abs(right));
      const double error = error_of(values.data<double>()[e], right);
      if (error > receipt.worst_error) {
        receipt.worst_error = error;
        receipt.sequence = b, receipt.head = head, receipt.query = query;
      }
    }
  }
  return receipt;
}

}  // namespace qkv
