// What a case of attention_case.h asks for besides the output: places for it, and what of it differs from the figures
// of whole rows of weights in double.
#pragma once

#include <algorithm>
#include <set>

#include "attention/attention_case.h"
#include "reference/attention.h"
#include "reference/batch.h"

namespace qkv::testing {

// |got - wanted| <= absolute + relative * |wanted| for each element; equal infinities agree, and NaN with NaN.
inline std::string mismatch(const TensorView& got, const TensorView& wanted, double absolute, double relative) {
  const std::vector<double> a = values(got), b = values(wanted);
  if (a.size() != b.size()) return fmt::format("{} elements instead of {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])) continue;
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    return fmt::format("element {} is {}, should be {}", i, a[i], b[i]);
  }
  return "";
}

class RequestedOutputs {
 public:
  RequestedOutputs(const AttentionCase& drawn, const reference::AttentionResult& exact)
      : drawn_(drawn), exact_(exact), batch_(drawn.q, drawn.k, drawn.options) {
    const Requests& wanted = drawn.requests;
    const Dims& rows = exact.log_sum_exp.shape();
    if (wanted.log_sum_exp) extras.log_sum_exp = place(log_sum_exp_, rows);
    if (wanted.weights) extras.weights = place(weights_, exact.weights.shape());
    if (wanted.logits) extras.logits = place(logits_, exact.logits.shape());
    if (wanted.rows >= 0) choose_rows(wanted.rows);
    if (!drawn.is_finite) return;  // of NaN there are no statistics
    if (wanted.row_maximum) extras.row_maximum = place(row_maximum_, rows);
    if (wanted.entropy) extras.entropy = place(entropy_, rows);
    if (wanted.top >= 0) {
      extras.top_keys = place(top_keys_, with(rows, wanted.top), Dtype::i64);
      extras.top_weights = place(top_weights_, with(rows, wanted.top));
    }
    if (wanted.received) extras.received = place(received_, shape_of_received());
    if (wanted.parts[0] >= 0) {
      extras.block_weights = place(block_weights_, {drawn.batch(), drawn.heads(), wanted.parts[0], wanted.parts[1]});
    }
  }
  RequestedOutputs(const RequestedOutputs&) = delete;

  AttentionExtras extras;

  // Nothing, or the name and the first wrong element of each. `tolerance`: of logits, and relative of weights.
  std::string difference(double tolerance) {
    check("log-sum-exp", extras.log_sum_exp, exact_.log_sum_exp, tolerance, 0x1p-23);
    check("weights", extras.weights, exact_.weights, tolerance, 0);
    check("logits", extras.logits, exact_.logits, tolerance, 0);
    if (extras.rows) check("row_weights", extras.row_weights, exact_rows_, tolerance, 0);
    for (std::int64_t b = 0; b < batch_.size(); ++b) check_sequence(b, tolerance);
    return found_;
  }

 private:
  MutableTensorView place(Tensor& tensor, const Dims& shape, std::optional<Dtype> dtype = std::nullopt) const {
    const Dtype wide = drawn_.q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    tensor = dtype ? Tensor::zeros(shape, *dtype) : filled(shape, kNan, wide);
    return in_rank(tensor);
  }
  // A case without a batch of its own has results without one.
  MutableTensorView in_rank(Tensor& tensor) const {
    const bool one_batch = !drawn_.packed() && drawn_.q.rank() == 3;
    return one_batch ? tensor.view().select(0, 0) : tensor.view();
  }
  static Dims with(Dims shape, std::int64_t last) {
    shape.push_back(last);
    return shape;
  }
  Dims shape_of_received() const {
    if (drawn_.packed()) return {drawn_.k.size(0), drawn_.heads()};
    return {drawn_.batch(), drawn_.heads(), exact_.weights.size(-1)};
  }

  void choose_rows(std::int64_t count) {
    std::vector<std::int64_t> sequences, indices;
    for (std::int64_t b = 0; b < drawn_.batch(); ++b) {
      if (drawn_.query_length(b) > 0) sequences.push_back(b);
    }
    if (sequences.empty()) count = 0;
    exact_rows_ = filled({count, exact_.weights.size(-1)}, 0, Dtype::f64);
    Random random(5);
    const auto below = [&](std::int64_t bound) {
      return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
    };
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t b = sequences[static_cast<std::size_t>(below(static_cast<std::int64_t>(sequences.size())))];
      const std::int64_t h = below(drawn_.heads()), i = below(drawn_.query_length(b));
      indices.insert(indices.end(), {b, h, i});
      convert(batch_.queries(exact_.weights.view(), b).select(0, h).select(0, i), exact_rows_.view().select(0, n));
    }
    rows_ = Tensor::of({count, 3}, indices);
    extras.rows = rows_;
    row_weights_ = filled(exact_rows_.shape(), kNan, drawn_.q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32);
    extras.row_weights = row_weights_;
  }

  void check(const std::string& name, const TensorView& got, const TensorView& wanted, double absolute,
             double relative) {
    if (!got) return;
    const std::string what = mismatch(got, wanted, absolute, relative);
    if (!what.empty()) found_ += fmt::format("{}: {}\n", name, what);
  }

  template <class View>
  static std::vector<double> row(const View& rows, std::int64_t h, std::int64_t i) {
    return values(rows.select(0, h).select(0, i));
  }

  void check_sequence(std::int64_t b, double tolerance) {
    const TensorView weights = batch_.queries(exact_.weights.view(), b),
                     logits = batch_.queries(exact_.logits.view(), b);
    const std::int64_t heads = weights.size(0), q_len = weights.size(1);
    const std::int64_t k_len = drawn_.key_length(b);
    const auto& [parts, columns] = drawn_.requests.parts;
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> received(static_cast<std::size_t>(k_len)), cells(65536), pairs(65536);
      const std::string head = fmt::format(" of sequence {}, head {}", b, h);
      for (std::int64_t i = 0; i < q_len; ++i) {
        const std::vector<double> row_weights = row(weights, h, i), row_logits = row(logits, h, i);
        const std::string name = fmt::format("{}, query {}", head, i);
        check_row(name, b, h, i, row_weights, row_logits, tolerance);
        for (std::int64_t j = 0; j < k_len; ++j) {
          const double weight = row_weights[static_cast<std::size_t>(j)];
          received[static_cast<std::size_t>(j)] += weight;
          if (parts < 0) continue;
          const auto cell = static_cast<std::size_t>(i * parts / q_len * columns + j * columns / k_len);
          cells[cell] += weight;
          pairs[cell] += 1;
        }
      }
      if (extras.received && q_len > 0) {
        check("received" + head, batch_.keys(received_.view(), b).select(0, h).slice(0, 0, k_len),
              Tensor::of({k_len}, received), tolerance, 2 * tolerance);
      }
      if (!extras.block_weights) continue;
      for (std::size_t cell = 0; cell < cells.size(); ++cell) cells[cell] /= std::max(1.0, pairs[cell]);
      cells.resize(static_cast<std::size_t>(parts * columns));
      check("block weights" + head, block_weights_.view().select(0, b).select(0, h).reshape({parts * columns}),
            Tensor::of({parts * columns}, cells), tolerance, 0);
    }
  }

  void check_row(const std::string& name, std::int64_t b, std::int64_t h, std::int64_t i,
                 const std::vector<double>& weights, const std::vector<double>& logits, double tolerance) {
    const auto of = [&](const Tensor& tensor) { return batch_.queries(tensor.view(), b).select(0, h).select(0, i); };
    const auto one = [](double number) { return filled({}, number, Dtype::f64); };
    if (extras.row_maximum) {
      const double largest = logits.empty() ? -kInfinity : *std::max_element(logits.begin(), logits.end());
      check("row maximum" + name, of(row_maximum_), one(largest), tolerance, 0);
    }
    if (extras.entropy) {
      double nats = 0;
      for (const double weight : weights) nats -= weight > 0 ? weight * std::log(weight) : 0;
      if (drawn_.options.sinks) {
        const double sink = values(drawn_.options.sinks)[static_cast<std::size_t>(h)];
        const double log_weight = sink - values(of(exact_.log_sum_exp))[0];
        if (sink > -kInfinity) nats -= std::exp(log_weight) * log_weight;
      }
      check("entropy" + name, of(entropy_), one(nats), 4 * tolerance, 2 * tolerance);
    }
    if (extras.top_keys) check_top(name, values(of(top_keys_)), values(of(top_weights_)), weights, logits, tolerance);
  }

  void check_top(const std::string& name, const std::vector<double>& keys, const std::vector<double>& got,
                 std::vector<double> weights, const std::vector<double>& logits, double tolerance) {
    const auto is_visible = [&](double key) {
      return key >= 0 && key < static_cast<double>(logits.size()) && logits[static_cast<std::size_t>(key)] > -kInfinity;
    };
    std::vector<double> own(keys.size());
    std::set<double> distinct;
    const auto visible = static_cast<std::size_t>(
        std::count_if(logits.begin(), logits.end(), [](double logit) { return logit > -kInfinity; }));
    for (std::size_t n = 0; n < keys.size(); ++n) {
      const bool is_right = n < visible ? is_visible(keys[n]) && distinct.insert(keys[n]).second : keys[n] == -1;
      if (!is_right) found_ += fmt::format("top keys{}: place {} is {}\n", name, n, keys[n]);
      if (is_right && n < visible) own[n] = weights[static_cast<std::size_t>(keys[n])];
    }
    std::sort(weights.rbegin(), weights.rend());
    weights.resize(keys.size());
    const auto count = static_cast<std::int64_t>(keys.size());
    check("top weights" + name, Tensor::of({count}, got), Tensor::of({count}, weights), tolerance, 0);
    check("weights of the top keys" + name, Tensor::of({count}, own), Tensor::of({count}, weights), tolerance, 0);
  }

  const AttentionCase& drawn_;
  const reference::AttentionResult& exact_;
  const reference::Batch batch_;
  std::string found_;
  Tensor log_sum_exp_, weights_, logits_, row_maximum_, entropy_, top_keys_, top_weights_, received_, block_weights_;
  Tensor rows_, row_weights_, exact_rows_;
};

}  // namespace qkv::testing
