// Joins the weights and values of a run with the gradients of the heads' outputs, or with the lengths of their values;
// and correlates ranks.
#include "explain/measure/weight_measures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "explain/observe/observe.h"
#include "qkv/matmul.h"

namespace qkv::inline explaining {

std::vector<HeadGradient> gradient_weights(const Explainable& input, std::int64_t written) {
  struct Layer {
    Tensor value, weights;
  };
  const std::vector<AttentionSite>& sites = input.attentions().sites;
  std::map<std::pair<std::size_t, std::int64_t>, Layer> layers;
  observe_layers(input, [&](std::size_t site, std::int64_t layer, const SeenLayer& seen) {
    layers[{site, layer}] = {seen.value, Tensor::copy(seen.weights)};
  });
  struct Gradients : Observer {
    void receive(std::string_view name, const TensorView& value) override {
      all[std::string(name)] = Tensor::copy(value);
    }
    std::map<std::string, Tensor> all;
  } gradients;
  input.run_backward(written, gradients);
  std::vector<HeadGradient> found;
  for (const auto& [place, layer] : layers) {
    const auto& [site, number] = place;
    const Tensor& of_outputs = gradients.all.at(sites[site].scope(number) + "heads_gradient");
    for (std::int64_t head = 0; head < sites[site].heads; ++head) {
      Tensor values = part_of(layer.weights, head);
      const Tensor gradient = part_of(of_outputs, head);
      const Tensor value = part_of(layer.value, head * layer.value.size(1) / sites[site].heads);
      for (std::int64_t i = 0; i < values.size(0); ++i) {
        for (std::int64_t j = 0; j < values.size(1); ++j) {
          double product = 0;
          for (std::int64_t e = 0; e < value.size(1); ++e) {
            product -= gradient.view().at<double>({i, e}) * value.view().at<double>({j, e});  // of minus L
          }
          values.data<double>()[i * values.size(1) + j] *= product;
        }
      }
      found.push_back({{number, head, site}, std::move(values)});
    }
  }
  return found;
}

Tensor value_lengths(const TensorView& value, const TensorView& out_weight, std::int64_t heads, std::int64_t head) {
  Tensor rows = part_of(value, head * value.size(1) / heads);
  const std::int64_t size = rows.size(1);
  if (out_weight.element_count() > 0) {
    const Tensor own = convert(out_weight.slice(1, head * size, (head + 1) * size), Dtype::f64);
    Tensor projected = Tensor::uninitialized({rows.size(0), own.size(0)}, Dtype::f64);
    matmul(rows, own.view().transpose(0, 1), projected);
    rows = std::move(projected);
  }
  Tensor lengths = Tensor::zeros({rows.size(0)}, Dtype::f64);
  for (std::int64_t j = 0; j < rows.size(0); ++j) {
    const double* row = rows.data<double>() + j * rows.size(1);
    double squares = 0;
    for (std::int64_t e = 0; e < rows.size(1); ++e) squares += row[e] * row[e];
    lengths.data<double>()[j] = std::sqrt(squares);
  }
  return lengths;
}

Tensor value_norms(const Tensor& weights, const Tensor& lengths) {
  Tensor norms = weights;
  for (std::int64_t i = 0; i < norms.element_count(); ++i) {
    norms.data<double>()[i] *= lengths.data<double>()[i % lengths.size(0)];
  }
  return norms;
}

namespace {

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

}  // namespace

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (a.size() != b.size() || !std::ranges::all_of(a, is_finite) || !std::ranges::all_of(b, is_finite)) return {};
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return {};
  return xy / std::sqrt(xx * yy);
}

}  // namespace qkv::inline explaining
