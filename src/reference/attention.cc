// The specification of attention. Read it from the bottom: attention() cuts the batch into sequences, attend() is the
// formula for one of them, and the functions above are its terms, each a sentence of include/qkv/{score,mask,bias}.h.
// Arguments are valid here: qkv::attention checks them.
#include "reference/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "attention/options/dropout.h"
#include "attention/options/mask_kinds.h"
#include "core/share.h"
#include "core/stop.h"
#include "qkv/error.h"
#include "reference/batch.h"
#include "reference/scorer.h"

namespace qkv::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One sequence of the batch, all f64: q [heads, q_len, head_dim], k [kv_heads, k_len, head_dim],
// v [kv_heads, k_len, value_dim], and its outputs.
struct Sequence {
  std::int64_t batch_index;
  std::int64_t query_start, key_start;  // packed: rows of the sequences before
  std::int64_t offset;                  // query i stands among the keys at i + offset
  TensorView q, k, v;
  MutableTensorView out{};          // [heads, q_len, value_dim]
  MutableTensorView log_sum_exp{};  // [heads, q_len]
  MutableTensorView weights{};      // [heads, q_len, k_len]
  MutableTensorView logits{};       // [heads, q_len, k_len]
  std::optional<RowIndex> only{};   // compute this row and no other
};

// A query and a key by their indices: sequence, query head, query, key.
struct Pair {
  std::int64_t batch, head, i, j;
  Dims indices() const { return {batch, head, i, j}; }
};

// The same for a user's function.
qkv::Pair as_function_argument(const Pair& pair, std::int64_t position) {
  const auto narrow = [](std::int64_t index) { return static_cast<std::int32_t>(index); };
  return {narrow(pair.batch), narrow(pair.head), narrow(pair.i), narrow(pair.j), narrow(position)};
}

// Mask and bias with their arrays in f64, answering for one pair at a time.
class Rules {
 public:
  Rules(const Mask& mask, const Bias& bias) : tables_(bias.tables()) {
    for (const Mask::Part& part : mask.parts()) {
      masks_.push_back({part, {in_double(part.arrays[0]), in_double(part.arrays[1])}});
    }
    for (const TensorView& view : bias.views()) biases_.push_back(in_double(view));
    for (const TensorView& view : bias.alibi_slopes()) slopes_.push_back(in_double(view));
    for (const RelativeTable& table : tables_) table_values_.push_back(in_double(table.values()));
  }

  bool may_attend(const Sequence& sequence, const Pair& pair) const {
    const std::int64_t position = pair.i + sequence.offset;
    return std::ranges::all_of(masks_, [&](const MaskRule& mask) {
      if (mask.part.kind == MaskKind::function) {
        std::uint8_t visible = 0;
        mask.part.function->fill({as_function_argument(pair, position), 1, 1, 1, 1, &visible});
        return visible != 0;
      }
      const MaskDescription& kind = description_of(mask.part.kind);
      std::array<double, 2> elements{};
      for (std::size_t n = 0; n < kind.arrays.size(); ++n) {
        elements[n] = element(mask.arrays[n], indices_of(kind.arrays[n].of, sequence, pair));
      }
      return kind.sees(mask.part.numbers, elements, static_cast<double>(position), static_cast<double>(pair.j));
    });
  }

  // `scale`: of the scores, and of Shaw's.
  double bias(const Sequence& sequence, const Pair& pair, double scale) const {
    const std::int64_t position = pair.i + sequence.offset;
    double sum = 0;
    for (const Tensor& values : biases_) sum += element(values, pair.indices());
    for (const Tensor& slopes : slopes_) {
      sum -= element(slopes, {pair.batch, pair.head}) * static_cast<double>(std::abs(position - pair.j));
    }
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      const std::int64_t bucket = tables_[t].bucket(position, pair.j);
      const TensorView values = table_values_[t].view();
      if (tables_[t].kind() == RelativeTable::Kind::shaw) {
        sum += scale * dot(row(sequence.q, pair.head, pair.i), row(values, bucket));
      } else {
        sum += values.at<double>({bucket, pair.head});
      }
    }
    return sum;
  }

 private:
  struct MaskRule {
    const Mask::Part& part;
    std::array<Tensor, 2> arrays;
  };

  // Where an array has the element that belongs to a pair.
  static Dims indices_of(MaskArrayOf of, const Sequence& sequence, const Pair& pair) {
    switch (of) {
      case MaskArrayOf::sequences:
        return {pair.batch};
      case MaskArrayOf::queries:
        return {pair.batch, sequence.query_start + pair.i};
      case MaskArrayOf::keys:
        return {pair.batch, sequence.key_start + pair.j};
      case MaskArrayOf::pairs:
        break;
    }
    return pair.indices();
  }
  static double element(const Tensor& array, const Dims& whole) {
    return array.view().at<double>(broadcast_index(array.shape(), whole));
  }

  std::vector<MaskRule> masks_;
  const std::vector<RelativeTable>& tables_;
  std::vector<Tensor> biases_, slopes_, table_values_;
};

// weights = softmax(logits) of one row, shifted by the maximum so that no exponential overflows; the logarithm of the
// sum of exponentials is returned. The sink is one more logit, whose weight goes nowhere. Logits that are all -infinity
// give weights 0.
double softmax(Vector logits, double sink, std::span<double> weights) {
  double maximum = sink;
  for (const double logit : logits) maximum = std::max(maximum, logit);
  const double shift = maximum == -kInfinity ? 0 : maximum;
  double sum = std::exp(sink - shift);
  for (std::size_t j = 0; j < logits.size(); ++j) {
    weights[j] = std::exp(logits[j] - shift);
    sum += weights[j];
  }
  for (double& weight : weights) weight = sum == 0 ? 0 : weight / sum;
  return shift + std::log(sum);
}

// out = dropout(softmax(mask(cap(scale * score(q, k)) + bias))) v for every head and query of one sequence. The rows of
// logits hold -infinity on entry, the rows of out 0.
void attend(const Sequence& sequence, const AttentionOptions& options, const Scorer& scorer, const Rules& rules) {
  const std::int64_t heads = sequence.q.size(0), kv_heads = sequence.k.size(0);
  const std::int64_t q_len = sequence.q.size(1), k_len = sequence.k.size(1);
  const double scale = options.scale.value_or(scorer.default_scale(sequence.q.size(2)));
  const DropoutRule dropout(options.dropout);
  const Tensor sinks = options.sinks ? in_double(options.sinks) : filled({heads}, -kInfinity);
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t kv_head = head / (heads / kv_heads);
    for (std::int64_t i = 0; i < q_len; ++i) {
      if (sequence.only && (sequence.only->head != head || sequence.only->query != i)) continue;
      const Vector query = row(sequence.q, head, i);
      const std::span<double> logits = row(sequence.logits, head, i);
      const std::span<double> weights = row(sequence.weights, head, i);
      const std::span<double> out = row(sequence.out, head, i);

      for (std::int64_t j = 0; j < k_len; ++j) {
        check_stop();
        const Pair pair{sequence.batch_index, head, i, j};
        if (!rules.may_attend(sequence, pair)) continue;
        double logit = scale * scorer.score(query, row(sequence.k, kv_head, j));
        if (options.soft_cap != 0) logit = options.soft_cap * std::tanh(logit / options.soft_cap);
        logit += rules.bias(sequence, pair, scale);
        if (options.logit_function) {
          options.logit_function.change_tile({as_function_argument(pair, i + sequence.offset), 1, 1, 1, 1, &logit});
        }
        logits[static_cast<std::size_t>(j)] = logit;
      }

      const double log_sum_exp = softmax(logits, sinks.view().at<double>({head}), weights);
      sequence.log_sum_exp.at<double>({head, i}) = log_sum_exp;
      if (log_sum_exp == -kInfinity && options.empty_rows == EmptyRows::nan) {
        for (const std::span<double> row : {weights, out}) std::fill(row.begin(), row.end(), std::nan(""));
        continue;
      }

      DropoutRow factors(dropout, sequence.batch_index, head, i);
      for (std::int64_t j = 0; j < k_len; ++j) {
        // A masked key is passed over, not multiplied by its weight 0: 0 times NaN is NaN.
        if (!rules.may_attend(sequence, {sequence.batch_index, head, i, j})) continue;
        const Vector value = row(sequence.v, kv_head, j);
        const double weight = weights[static_cast<std::size_t>(j)] * factors.factor(j);
        for (std::size_t c = 0; c < out.size(); ++c) out[c] += weight * value[c];
      }
    }
  }
}

// Sequence b of the batch, without its outputs; q, k and v in the batch's form.
Sequence sequence_of(const Batch& batch, std::int64_t b, const Tensor& q, const Tensor& k, const Tensor& v) {
  const TensorView queries = batch.queries(q.view(), b), keys = batch.keys(k.view(), b);
  return {.batch_index = b,
          .query_start = batch.query_start(b),
          .key_start = batch.key_start(b),
          .offset = batch.offset(b, queries.size(1), keys.size(1)),
          .q = queries,
          .k = keys,
          .v = batch.keys(v.view(), b)};
}

}  // namespace

AttentionResult attention(const TensorView& query, const TensorView& key, const TensorView& value,
                          const AttentionOptions& options) {
  const StopScope stop(options.stop);
  const Scorer scorer(options.score);
  const Rules rules(options.mask, options.bias);
  const Batch batch(query, key, options);
  const Tensor q = batch.in_form(query), k = batch.keys_in_form(key), v = batch.keys_in_form(value);

  Dims rows;  // a number for each query and head
  for (int i = 0; i + 1 < q.rank(); ++i) rows.push_back(q.size(i));
  const auto matrix = [&](std::int64_t columns, double value_of_all) {
    Dims shape = rows;
    shape.push_back(columns);
    return filled(shape, value_of_all);
  };
  AttentionResult result{.out = matrix(v.size(-1), 0),
                         .log_sum_exp = filled(rows, -kInfinity),
                         .weights = matrix(batch.longest_key_length(), 0),
                         .logits = matrix(batch.longest_key_length(), -kInfinity)};
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    Sequence sequence = sequence_of(batch, b, q, k, v);
    const std::int64_t k_len = sequence.k.size(1);
    sequence.out = batch.queries(result.out.view(), b);
    sequence.log_sum_exp = batch.queries(result.log_sum_exp.view(), b);
    sequence.weights = batch.queries(result.weights.view(), b).slice(2, 0, k_len);
    sequence.logits = batch.queries(result.logits.view(), b).slice(2, 0, k_len);
    attend(sequence, options, scorer, rules);
  }
  return result;
}

Tensor attention_rows(const TensorView& query, const TensorView& key, const TensorView& value,
                      const AttentionOptions& options, const std::vector<RowIndex>& rows) {
  const StopScope stop(options.stop);
  const Scorer scorer(options.score);
  const Rules rules(options.mask, options.bias);
  const Batch batch(query, key, options);
  const Tensor q = batch.in_form(query), k = batch.keys_in_form(key), v = batch.keys_in_form(value);
  Tensor out = filled({static_cast<std::int64_t>(rows.size()), v.size(-1)}, 0);
  ShareTurns turns(std::ssize(rows));
  for (std::size_t n = 0; n < rows.size(); ++n, turns.next()) {
    Sequence sequence = sequence_of(batch, rows[n].sequence, q, k, v);
    const std::int64_t heads = sequence.q.size(0), q_len = sequence.q.size(1), k_len = sequence.k.size(1);
    // One row of memory stands for all of them.
    Tensor log_sum_exp = filled({1}, -kInfinity), weights = filled({k_len}, 0), logits = filled({k_len}, -kInfinity);
    sequence.out = out.view().select(0, static_cast<std::int64_t>(n)).broadcast_to({heads, q_len, v.size(-1)});
    sequence.log_sum_exp = log_sum_exp.view().broadcast_to({heads, q_len});
    sequence.weights = weights.view().broadcast_to({heads, q_len, k_len});
    sequence.logits = logits.view().broadcast_to({heads, q_len, k_len});
    sequence.only = rows[n];
    attend(sequence, options, scorer, rules);
  }
  return out;
}

}  // namespace qkv::reference
