// Computes the score of a query and a key, and its derivatives.
#include "reference/scorer.h"

#include <cmath>

namespace qkv::reference {
namespace {

// Row r of a matrix, or its columns first ... first + count.
Vector matrix_row(const Tensor& matrix, std::size_t r, std::size_t first, std::size_t count) {
  return Vector(matrix.data<double>(), static_cast<std::size_t>(matrix.element_count()))
      .subspan(r * static_cast<std::size_t>(matrix.size(1)) + first, count);
}

std::span<double> matrix_row(Tensor& matrix, std::size_t r, std::size_t first, std::size_t count) {
  return std::span(matrix.data<double>(), static_cast<std::size_t>(matrix.element_count()))
      .subspan(r * static_cast<std::size_t>(matrix.size(1)) + first, count);
}

}  // namespace

Scorer::Scorer(const Score& score)
    : kind_(score.kind()),
      w_query_(in_double(score.w_query())),
      w_key_(in_double(score.w_key())),
      v_(in_double(score.v())) {}

double Scorer::default_scale(std::int64_t head_dim) const {
  return kind_ == Score::Kind::scaled_dot ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1;
}

std::vector<double> Scorer::hidden(Vector query, Vector key) const {
  std::vector<double> sums(static_cast<std::size_t>(v_.size(0)));
  for (std::size_t h = 0; h < sums.size(); ++h) {
    const bool joined = kind_ == Score::Kind::concat;
    sums[h] =
        dot(query, matrix_row(w_query_, h, 0, query.size())) +
        dot(key, joined ? matrix_row(w_query_, h, query.size(), key.size()) : matrix_row(w_key_, h, 0, key.size()));
  }
  return sums;
}

double Scorer::score(Vector query, Vector key) const {
  if (is_dot_product(kind_)) return dot(query, key);
  double sum = 0;
  if (kind_ == Score::Kind::bilinear) {
    for (std::size_t c = 0; c < query.size(); ++c) sum += query[c] * dot(matrix_row(w_query_, c, 0, key.size()), key);
    return sum;
  }
  const std::vector<double> sums = hidden(query, key);
  for (std::size_t h = 0; h < sums.size(); ++h) sum += v_.data<double>()[h] * std::tanh(sums[h]);
  return sum;
}

ScoreGradients Scorer::no_gradients() const {
  const auto zeros = [](const Tensor& like) { return like.element_count() == 0 ? Tensor() : filled(like.shape(), 0); };
  return {zeros(w_query_), zeros(w_key_), zeros(v_)};
}

void Scorer::add_gradients(double gradient, Vector query, Vector key, std::span<double> grad_query,
                           std::span<double> grad_key, ScoreGradients& grad_parameters) const {
  if (is_dot_product(kind_)) {
    add(grad_query, gradient, key);
    add(grad_key, gradient, query);
    return;
  }
  if (kind_ == Score::Kind::bilinear) {
    for (std::size_t c = 0; c < query.size(); ++c) {
      const Vector row = matrix_row(w_query_, c, 0, key.size());
      grad_query[c] += gradient * dot(row, key);
      add(grad_key, gradient * query[c], row);
      add(matrix_row(grad_parameters.w_query, c, 0, key.size()), gradient * query[c], key);
    }
    return;
  }
  const bool joined = kind_ == Score::Kind::concat;
  Tensor& grad_w_key = joined ? grad_parameters.w_query : grad_parameters.w_key;
  const Tensor& w_key = joined ? w_query_ : w_key_;
  const std::size_t first = joined ? query.size() : 0;
  const std::vector<double> sums = hidden(query, key);
  for (std::size_t h = 0; h < sums.size(); ++h) {
    const double tanh = std::tanh(sums[h]);
    grad_parameters.v.data<double>()[h] += gradient * tanh;
    const double inner = gradient * v_.data<double>()[h] * (1 - tanh * tanh);
    add(grad_query, inner, matrix_row(w_query_, h, 0, query.size()));
    add(grad_key, inner, matrix_row(w_key, h, first, key.size()));
    add(matrix_row(grad_parameters.w_query, h, 0, query.size()), inner, query);
    add(matrix_row(grad_w_key, h, first, key.size()), inner, key);
  }
}

}  // namespace qkv::reference
