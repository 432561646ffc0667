// What a case of attention_case.h asks for besides the output: places for it, and what of it differs from the figures
// of whole rows of weights in double.
#pragma once

#include <algorithm>
#include <map>
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
    for (const OutputDescription& kind : attention_outputs()) {
      if (!drawn.requests.has(kind) || (kind.is_statistic && !drawn.is_finite)) continue;  // of NaN there are none
      if (kind.of == OutputOf::chosen) choose_rows(drawn.requests.rows);
      const Dims shape = shape_of(kind.of);
      extras.*kind.view = kind.is_index ? place(kind, shape, Dtype::i64) : place(kind, shape);
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
  MutableTensorView place(const OutputDescription& kind, const Dims& shape, std::optional<Dtype> dtype = std::nullopt) {
    const Dtype wide = drawn_.q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    Tensor& tensor = given_[kind.name] = dtype ? Tensor::zeros(shape, *dtype) : filled(shape, kNan, wide);
    return kind.of == OutputOf::chosen ? tensor.view() : in_rank(tensor);
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
  Dims shape_of(OutputOf of) const {
    const Dims& rows = exact_.log_sum_exp.shape();
    const auto& [parts, columns] = drawn_.requests.parts;
    switch (of) {
      case OutputOf::rows:
        return rows;
      case OutputOf::pairs:
        return exact_.weights.shape();
      case OutputOf::top:
        return with(rows, drawn_.requests.top);
      case OutputOf::keys:
        return drawn_.packed() ? Dims{drawn_.k.size(0), drawn_.heads()}
                               : Dims{drawn_.batch(), drawn_.heads(), exact_.weights.size(-1)};
      case OutputOf::chosen:
        return exact_rows_.shape();
      case OutputOf::blocks:
        break;
    }
    return {drawn_.batch(), drawn_.heads(), parts, columns};
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
    const bool has_blocks = static_cast<bool>(extras.block_weights);
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
          if (!has_blocks) continue;
          const auto cell = static_cast<std::size_t>(i * parts / q_len * columns + j * columns / k_len);
          cells[cell] += weight;
          pairs[cell] += 1;
        }
      }
      if (extras.received && q_len > 0) {
        check("received" + head, batch_.keys(given_["received"].view(), b).select(0, h).slice(0, 0, k_len),
              Tensor::of({k_len}, received), tolerance, 2 * tolerance);
      }
      if (!has_blocks) continue;
      for (std::size_t cell = 0; cell < cells.size(); ++cell) cells[cell] /= std::max(1.0, pairs[cell]);
      cells.resize(static_cast<std::size_t>(parts * columns));
      check("block weights" + head, given_["block_weights"].view().select(0, b).select(0, h).reshape({parts * columns}),
            Tensor::of({parts * columns}, cells), tolerance, 0);
    }
  }

  void check_row(const std::string& name, std::int64_t b, std::int64_t h, std::int64_t i,
                 const std::vector<double>& weights, const std::vector<double>& logits, double tolerance) {
    const auto of = [&](const Tensor& tensor) { return batch_.queries(tensor.view(), b).select(0, h).select(0, i); };
    RowInDoubles figures{.weights = weights, .logits = logits, .position = static_cast<double>(i + offset_of(b))};
    figures.log_sum_exp = values(of(exact_.log_sum_exp))[0];
    if (drawn_.options.sinks) {
      const double sink = values(drawn_.options.sinks)[static_cast<std::size_t>(h)];
      if (sink > -kInfinity) figures.sink_weight = std::exp(sink - figures.log_sum_exp);
    }
    for (const OutputDescription& kind : attention_outputs()) {
      if (kind.of != OutputOf::rows || !(extras.*kind.view) || !kind.is_statistic) continue;
      const bool is_sum = kind.view == &AttentionExtras::entropy;  // over all keys
      check(kind.name + name, of(given_[kind.name]), filled({}, kind.of_row(figures), Dtype::f64),
            (is_sum ? 4 : 1) * tolerance, is_sum ? 2 * tolerance : 0);
    }
    if (extras.top_keys) {
      check_top(name, values(of(given_["top_keys"])), values(of(given_["top_weights"])), weights, logits, tolerance);
    }
  }

  // Of query 0, among the keys.
  std::int64_t offset_of(std::int64_t b) const {
    return batch_.offset(b, drawn_.query_length(b), drawn_.key_length(b));
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
  std::map<std::string_view, Tensor> given_;
  Tensor rows_, exact_rows_;
};

}  // namespace qkv::testing
