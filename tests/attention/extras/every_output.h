// Every optional output of one call of fixed size, in places for them together or one at a time, beside the same
// figures from whole rows in double.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "attention/attention_testing.h"
#include "attention/hidden_rows.h"
#include "reference/attention.h"

namespace qkv::testing {

inline constexpr std::int64_t kBatch = 2, kHeads = 2, kQueries = 100, kKeys = 330, kTop = 5, kParts = 7;

// Places for all outputs.
struct Places {
  explicit Places(Dtype type)
      : row_maximum(filled({kBatch, kHeads, kQueries}, kNan, type)),
        entropy(filled({kBatch, kHeads, kQueries}, kNan, type)),
        top_keys(filled({kBatch, kHeads, kQueries, kTop}, 77, Dtype::i64)),
        top_weights(filled({kBatch, kHeads, kQueries, kTop}, kNan, type)),
        received(filled({kBatch, kHeads, kKeys}, kNan, type)),
        block_weights(filled({kBatch, kHeads, kParts, kParts}, kNan, type)),
        weights(filled({kBatch, kHeads, kQueries, kKeys}, kNan, type)),
        logits(filled({kBatch, kHeads, kQueries, kKeys}, kNan, type)) {
    std::vector<std::int64_t> indices;
    for (std::int64_t n = 0; n < 40; ++n) indices.insert(indices.end(), {n % 3 / 2, n % kHeads, n * n * 7 % kQueries});
    rows = Tensor::of({40, 3}, indices);
    row_weights = filled({40, kKeys}, kNan, type);
  }

  Tensor row_maximum, entropy, top_keys, top_weights, received, block_weights, weights, logits, rows, row_weights;

  std::vector<std::pair<std::string, AttentionExtras>> alone() const {
    std::vector<std::pair<std::string, AttentionExtras>> each(8);
    const auto at = [&](std::size_t n, const char* name) -> AttentionExtras& {
      each[n].first = name;
      return each[n].second;
    };
    const auto view = [](const Tensor& tensor) { return const_cast<Tensor&>(tensor).view(); };
    at(0, "row maximum").row_maximum = view(row_maximum);
    at(1, "entropy").entropy = view(entropy);
    at(2, "top keys").top_keys = view(top_keys);
    at(2, "top keys").top_weights = view(top_weights);
    at(3, "received").received = view(received);
    at(4, "block weights").block_weights = view(block_weights);
    at(5, "weights").weights = view(weights);
    at(6, "logits").logits = view(logits);
    at(7, "chosen rows").rows = rows;
    at(7, "chosen rows").row_weights = view(row_weights);
    return each;
  }
  AttentionExtras together() {
    return {.weights = weights,
            .logits = logits,
            .rows = rows,
            .row_weights = row_weights,
            .row_maximum = row_maximum,
            .entropy = entropy,
            .top_keys = top_keys,
            .top_weights = top_weights,
            .received = received,
            .block_weights = block_weights};
  }
  std::vector<const Tensor*> list() const {
    return {&row_maximum,   &entropy, &top_keys, &top_weights, &received,
            &block_weights, &weights, &logits,   &row_weights};
  }
};

// The same figures from whole rows in double.
struct Exact {
  reference::AttentionResult rows;
  Tensor row_maximum, entropy, top_weights, received, block_weights;

  Exact(const Tensor& q, const Tensor& k, const AttentionOptions& options)
      : rows(reference::attention(q, k, k, options)) {
    Places places(Dtype::f64);
    row_maximum = places.row_maximum, entropy = places.entropy, top_weights = places.top_weights;
    received = filled(places.received.shape(), 0, Dtype::f64);
    block_weights = filled(places.block_weights.shape(), 0, Dtype::f64);
    const auto parts_of = [](std::int64_t part, std::int64_t n) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < n; ++i) count += i * kParts / n == part ? 1 : 0;
      return count;
    };
    for (std::int64_t row = 0; row < kBatch * kHeads * kQueries; ++row) {
      const double *weights = rows.weights.data<double>() + row * kKeys,
                   *logits = rows.logits.data<double>() + row * kKeys;
      const std::int64_t head = row / kQueries, part = row % kQueries * kParts / kQueries;
      double nats = 0;
      for (std::int64_t j = 0; j < kKeys; ++j) {
        nats -= weights[j] > 0 ? weights[j] * std::log(weights[j]) : 0;
        received.data<double>()[head * kKeys + j] += weights[j];
        block_weights.data<double>()[(head * kParts + part) * kParts + j * kParts / kKeys] += weights[j];
      }
      row_maximum.data<double>()[row] = *std::max_element(logits, logits + kKeys);
      entropy.data<double>()[row] = nats;
      std::vector<double> falling(weights, weights + kKeys);
      std::sort(falling.rbegin(), falling.rend());
      std::copy_n(falling.begin(), kTop, top_weights.data<double>() + row * kTop);
    }
    for (std::int64_t at = 0; at < block_weights.element_count(); ++at) {
      const std::int64_t pairs = parts_of(at / kParts % kParts, kQueries) * parts_of(at % kParts, kKeys);
      block_weights.data<double>()[at] /= static_cast<double>(pairs);
    }
  }
};

inline void expect_exact(const Places& found, const Exact& exact, double tolerance) {
  EXPECT_LE(difference(found.weights, exact.rows.weights), tolerance);
  EXPECT_LE(difference(found.logits, exact.rows.logits), 8 * tolerance);
  EXPECT_LE(difference(found.row_maximum, exact.row_maximum), 8 * tolerance);
  EXPECT_LE(difference(found.entropy, exact.entropy), 4 * tolerance);
  EXPECT_LE(difference(found.top_weights, exact.top_weights), tolerance);
  EXPECT_LE(difference(found.received, exact.received), 8 * tolerance);
  EXPECT_LE(difference(found.block_weights, exact.block_weights), tolerance);
  for (std::int64_t n = 0; n < found.rows.size(0); ++n) {
    const std::int64_t* row = found.rows.data<std::int64_t>() + 3 * n;
    const TensorView wanted = exact.rows.weights.view().select(0, row[0]).select(0, row[1]).select(0, row[2]);
    EXPECT_LE(difference(found.row_weights.view().select(0, n), wanted), tolerance) << "chosen row " << n;
  }
  const std::int64_t* keys = found.top_keys.data<std::int64_t>();
  for (std::int64_t at = 0; at < found.top_keys.element_count(); ++at) {
    const double weight = exact.top_weights.data<double>()[at];
    if (weight == 0) {
      EXPECT_EQ(keys[at], -1);
    } else {
      ASSERT_TRUE(keys[at] >= 0 && keys[at] < kKeys);
      EXPECT_NEAR(exact.rows.weights.data<double>()[at / kTop * kKeys + keys[at]], weight, tolerance);
    }
  }
}

// All outputs together are those of the reference, each alone has the bits that it has among others. Rows that nobody
// sees hold NaN. `name` is of the call alone: what the reference gives is computed once for all targets.
inline void expect_every_output(const std::string& name, Dtype dtype, const AttentionOptions& options) {
  SCOPED_TRACE(name);
  static std::map<std::string, Exact> exact;
  Random random(2);
  const Tensor q = normal(random, {kBatch, kHeads, kQueries, 6}, dtype);
  const Tensor k = normal(random, {kBatch, kHeads, kKeys, 6}, dtype);
  const HiddenRows unseen(q, k, options);
  unseen.put_into_queries(q, kNan);
  unseen.put_into_keys(k, kNan);
  Places together(dtype), alone(dtype);
  attention(q, k, k, options, together.together());
  if (!exact.contains(name)) exact.try_emplace(name, q, k, options);
  expect_exact(together, exact.at(name), dtype == Dtype::f64 ? 1e-14 : 2e-6);
  for (const auto& [output, extras] : alone.alone()) {
    SCOPED_TRACE(output);
    attention(q, k, k, options, extras);
  }
  for (std::size_t n = 0; n < alone.list().size(); ++n) {
    EXPECT_TRUE(same_bits(*alone.list()[n], *together.list()[n])) << "output " << n << " alone";
  }
}

}  // namespace qkv::testing
