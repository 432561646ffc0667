// Computes every intermediate with the production kernels, with or without substitutions, and plans the calls of
// layers.
#include "explain/observe/intermediates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/stop.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "qkv/attention.h"
#include "qkv/matmul.h"
#include "reference/attention.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kMostInputs = 4096;  // whole matrices of n x n are held and shown

Tensor new_matrix(std::int64_t rows, std::int64_t columns) { return Tensor::zeros({rows, columns}, Dtype::f64); }

// A vector may come as [n], [1, n] or [n, 1].
TensorView as_vector(const Tensor& tensor, const char* name, std::int64_t length) {
  require(tensor.dtype() == Dtype::f64 && tensor.element_count() == length && tensor.rank() <= 2,
          "{} must be {} numbers in f64, got {}", name, length, to_string(tensor.shape()));
  return tensor.view().reshape({length});
}

// out = a b. The bits of a row do not depend on other rows, so that they can be few between two questions.
void multiply(const Tensor& a, const Tensor& b, const MutableTensorView& out, const MatmulOptions& options) {
  constexpr std::int64_t kRows = 64;
  const PackedMatrix packed(b);
  for (std::int64_t i = 0; i < a.size(0); i += kRows) {
    check_stop();
    const std::int64_t end = std::min(i + kRows, a.size(0));
    matmul(a.view().slice(0, i, end), packed, out.slice(0, i, end), options);
  }
}

Tensor project(const Tensor& a, const Tensor& weights, const char* weights_name, const Tensor& bias,
               const char* bias_name, double& difference) {
  require(weights.size(0) == a.size(1),
          "{} must have {} rows, one per number of the vectors that it multiplies, got {}", weights_name, a.size(1),
          to_string(weights.shape()));
  MatmulOptions options;
  if (given(bias)) options.bias = as_vector(bias, bias_name, weights.size(1));
  Tensor product = new_matrix(a.size(0), weights.size(1));
  multiply(a, weights, product, options);
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    check_stop();
    const std::vector<double> one = project_one(a.view().select(0, i), weights, bias);
    difference = larger(difference, largest_difference(Tensor::copy(product.view().select(0, i)),
                                                       Tensor::of<double>({weights.size(1)}, one)));
  }
  return product;
}

Score score_of(const ExplainInput& input, std::int64_t query_size, std::int64_t key_size) {
  const auto matrix = [](const Tensor& w, const char* name, std::int64_t columns) -> TensorView {
    require(given(w) && w.rank() == 2 && w.size(1) == columns, "{} must be a matrix of {} columns, got {}", name,
            columns, to_string(w.shape()));
    return w;
  };
  switch (input.score) {
    case Score::Kind::dot:
      return Score::dot();
    case Score::Kind::additive: {
      const TensorView w_query = matrix(input.score_w_query, "score_w_query", query_size);
      return Score::additive(w_query, matrix(input.score_w_key, "score_w_key", key_size),
                             as_vector(input.score_v, "score_v", w_query.size(0)));
    }
    case Score::Kind::concat: {
      const TensorView w = matrix(input.score_w, "score_w", query_size + key_size);
      return Score::concat(w, as_vector(input.score_v, "score_v", w.size(0)));
    }
    case Score::Kind::bilinear: {
      const TensorView w = matrix(input.score_w, "score_w", key_size);
      require(w.size(0) == query_size, "score_w must have {} rows, got {}", query_size, to_string(w.shape()));
      return Score::bilinear(w);
    }
    case Score::Kind::scaled_dot:
      break;
  }
  return Score::scaled_dot();
}

// One run of the kernel over [n, size] matrices, compared with the reference.
void attend(const Tensor& query, const Tensor& key, const AttentionOptions& options, Intermediates& all) {
  const std::int64_t n = query.size(0);
  const auto heads = [n](auto view) { return view.reshape({1, 1, n, view.size(1)}); };
  all.output = new_matrix(n, all.value.size(1));
  all.logits = new_matrix(n, n);
  all.weights = new_matrix(n, n);
  all.log_sum_exp = Tensor::zeros({n}, Dtype::f64);
  const TensorView q = heads(query.view()), k = heads(key.view()), v = heads(std::as_const(all.value).view());
  AttentionExtras extras;
  extras.log_sum_exp = all.log_sum_exp.view().reshape({1, 1, n});
  extras.weights = heads(all.weights.view());
  extras.logits = heads(all.logits.view());
  attention(q, k, v, heads(all.output.view()), options, extras);
  all.cost = plan(q, k, v, options, extras);

  const reference::AttentionResult expected = reference::attention(q, k, v, options);
  for (const auto& [ours, theirs] :
       {std::pair(&all.output, &expected.out), std::pair(&all.weights, &expected.weights),
        std::pair(&all.logits, &expected.logits), std::pair(&all.log_sum_exp, &expected.log_sum_exp)}) {
    all.reference_difference = larger(all.reference_difference, largest_difference(*ours, *theirs));
  }
}

// Logits of the user's reach the kernel as a bias on scores that are zero.
void attend_by_bias(const Tensor& logits, AttentionOptions options, Intermediates& all) {
  const Tensor bias = logits;  // `all` is overwritten while the bias is in use
  const Tensor zero = new_matrix(logits.size(0), 1);
  options.score = Score::dot();
  options.scale = 1;
  options.bias = Bias::view(bias);
  attend(zero, zero, options, all);
}

Tensor scaled(Tensor matrix, double factor) {
  for (std::int64_t i = 0; i < matrix.element_count(); ++i) matrix.data<double>()[i] *= factor;
  return matrix;
}

}  // namespace

OwnedMask mask_of(const ExplainInput& input, std::int64_t n) {
  OwnedMask owned;
  if (input.causal) owned.mask = owned.mask & Mask::causal(*input.causal);
  if (input.prefix) {
    require(*input.prefix >= 0, "prefix is {}; it must be 0 or more", *input.prefix);
    owned.prefix = Tensor::of({1}, std::vector<std::int64_t>{*input.prefix});
    owned.mask = owned.mask & Mask::prefix(owned.prefix, Align::top_left);
  }
  owned.mask = owned.mask & input.window;
  if (given(input.mask)) {
    const Dims& shape = input.mask.shape();
    const bool fits = input.mask.rank() == 2 && (shape[0] == n || shape[0] == 1) && (shape[1] == n || shape[1] == 1);
    require(fits, "mask must be [{}, {}] or broadcast to it, got {}", n, n, to_string(shape));
    const double* values = input.mask.data<double>();
    require(std::all_of(values, values + input.mask.element_count(), [](double x) { return x == 0 || x == 1; }),
            "mask must hold 1 (may attend) and 0 (hidden) alone");
    owned.visible = convert(input.mask, Dtype::u8);
    owned.mask = owned.mask & Mask::boolean(owned.visible.view().broadcast_to({1, 1, n, n}));
  }
  return owned;
}

bool given(const Tensor& tensor) { return tensor.rank() != 1 || tensor.size(0) != 0; }

void check_matrices(const ExplainInput& input) {
  const std::pair<const char*, const Tensor*> matrices[] = {{"inputs", &input.inputs},
                                                            {"w_embed", &input.w_embed},
                                                            {"w_query", &input.w_query},
                                                            {"w_key", &input.w_key},
                                                            {"w_value", &input.w_value},
                                                            {"score_w_query", &input.score_w_query},
                                                            {"score_w_key", &input.score_w_key},
                                                            {"score_w", &input.score_w},
                                                            {"mask", &input.mask}};
  for (const auto& [name, tensor] : matrices) {
    require(!given(*tensor) || (tensor->rank() == 2 && tensor->element_count() > 0 && tensor->dtype() == Dtype::f64),
            "{} must be a matrix of numbers (f64) with at least one row and column, got {} {}", name,
            name_of(tensor->dtype()), to_string(tensor->shape()));
  }
}

std::vector<std::string> intermediate_names(const ExplainInput& input) {
  std::vector<std::string> names = {"inputs", "query", "key", "value", "scores", "logits", "weights"};
  if (given(input.w_embed)) names.insert(names.begin() + 1, "embedded");
  return names;
}

std::vector<double> project_one(const TensorView& vector, const Tensor& matrix, const Tensor& bias) {
  const std::int64_t columns = matrix.size(1);
  std::vector<double> sum(static_cast<std::size_t>(columns));
  const double* row = matrix.data<double>();
  for (std::int64_t i = 0; i < matrix.size(0); ++i, row += columns) {
    const double entry = vector.at<double>({i});
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += entry * row[j];
  }
  if (given(bias)) {
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += bias.data<double>()[j];
  }
  return sum;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.element_count() != b.element_count()) return std::numeric_limits<double>::infinity();
  const double *x = a.data<double>(), *y = b.data<double>();
  double largest = 0;
  for (std::int64_t i = 0; i < a.element_count(); ++i) {
    if (x[i] != y[i]) largest = larger(largest, std::abs(x[i] - y[i]));
  }
  return largest;
}

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

Intermediates compute_intermediates(const ExplainInput& input, const std::map<std::string, Tensor>& substitutes) {
  check_matrices(input);
  for (const auto& [name, tensor] : {std::pair("inputs", &input.inputs), std::pair("w_query", &input.w_query),
                                     std::pair("w_key", &input.w_key), std::pair("w_value", &input.w_value)}) {
    require(given(*tensor), "{} is missing", name);
  }
  const std::vector<std::string> names = intermediate_names(input);
  for (const auto& [name, tensor] : substitutes) {
    require(std::ranges::find(names, name) != names.end(), "there is no \"{}\" to substitute; there are {}", name,
            fmt::join(names, ", "));
  }
  const auto substitute = [&](const char* name, const Tensor& computed) -> const Tensor& {
    const auto found = substitutes.find(name);
    if (found == substitutes.end()) return computed;
    require(found->second.shape() == computed.shape() && found->second.dtype() == Dtype::f64,
            "the substitute for {} must be {} in f64, got {}", name, to_string(computed.shape()),
            to_string(found->second.shape()));
    return found->second;
  };

  Intermediates all;
  all.inputs = substitute("inputs", input.inputs);
  const std::int64_t n = all.inputs.size(0);
  require(n <= kMostInputs, "{} inputs are more than the {} that can be shown", n, kMostInputs);
  all.embedded = all.inputs;
  if (given(input.w_embed)) {
    require(input.w_embed.size(1) == all.inputs.size(1),
            "w_embed must have {} columns, one per number of an input, got {}", all.inputs.size(1),
            to_string(input.w_embed.shape()));
    const Tensor w = Tensor::copy(input.w_embed.view().transpose(0, 1));
    all.embedded = substitute("embedded", project(all.inputs, w, "w_embed", {}, "", all.one_at_a_time_difference));
  }
  double& apart = all.one_at_a_time_difference;
  all.query = substitute("query", project(all.embedded, input.w_query, "w_query", input.b_query, "b_query", apart));
  all.key = substitute("key", project(all.embedded, input.w_key, "w_key", input.b_key, "b_key", apart));
  all.value = substitute("value", project(all.embedded, input.w_value, "w_value", input.b_value, "b_value", apart));

  const std::int64_t query_size = all.query.size(1), key_size = all.key.size(1);
  const bool dot = is_dot_product(input.score);
  require(!dot || query_size == key_size,
          "a dot product needs queries and keys of one size: w_query has {} columns, w_key {}", query_size, key_size);
  const Score score = score_of(input, query_size, key_size);
  const double default_scale =
      input.score == Score::Kind::scaled_dot ? 1 / std::sqrt(static_cast<double>(query_size)) : 1.0;
  all.scale = input.scale.value_or(default_scale);
  require(std::isfinite(all.scale), "the scale must be finite, got {}", all.scale);

  AttentionOptions options;
  options.scale = 1;
  options.score = score;
  attend(all.query, all.key, options, all);
  all.scores = substitute("scores", all.logits);
  const OwnedMask mask = mask_of(input, n);
  options.mask = mask.mask;
  options.scale = all.scale;
  if (substitutes.contains("scores")) {
    attend_by_bias(scaled(all.scores, all.scale), options, all);
  } else {
    attend(all.query, all.key, options, all);
  }
  if (substitutes.contains("logits")) {
    options.mask = Mask();  // the user's logits are final
    attend_by_bias(substitute("logits", all.logits), options, all);
  }
  if (substitutes.contains("weights")) {
    all.weights = substitute("weights", all.weights);
    all.output = project(all.weights, all.value, "value", {}, "", all.reference_difference);
    all.cost.reset();
  }
  return all;
}

AttentionPlan plan_of(const HeadsCall& call, const Mask& mask, const Bias& bias) {
  const auto without_elements = [&](std::int64_t heads, std::int64_t rows, std::int64_t size) {
    return MutableTensorView(nullptr, call.dtype, {1, heads, rows, size});
  };
  static std::byte nowhere{};  // optional outputs are asked for by not being empty
  const MutableTensorView planes(&nowhere, call.dtype, {1, call.heads, call.queries, call.keys});
  return plan(without_elements(call.heads, call.queries, call.head_dim),
              without_elements(call.kv_heads, call.keys, call.head_dim),
              without_elements(call.kv_heads, call.keys, call.value_dim),
              {.mask = mask, .bias = bias, .soft_cap = call.soft_cap}, {.weights = planes, .logits = planes});
}

std::optional<AttentionPlan> plan_of_layer(const Attentions& attentions, const HeadIndex& layer, std::int64_t head_dim,
                                           std::int64_t value_dim) {
  const AttentionSite& site = attentions.sites[layer.site];
  if (!is_dot_product(site.score)) return {};
  const LeftOutMasks masks(attentions);
  const std::span<const Mask> of_layers = masks.of(layer.site);
  Mask mask = of_layers.empty() ? Mask() : of_layers[static_cast<std::size_t>(layer.layer)];
  if (site.causal) mask = mask & Mask::causal(Align::top_left);
  if (!site.windows.empty()) mask = mask & site.windows[static_cast<std::size_t>(layer.layer)];
  return plan_of({.heads = site.heads,
                  .kv_heads = site.kv_heads > 0 ? site.kv_heads : site.heads,
                  .queries = std::ssize(attentions.sequences[site.queries].tokens),
                  .keys = std::ssize(attentions.sequences[site.keys].tokens),
                  .head_dim = head_dim,
                  .value_dim = value_dim,
                  .soft_cap = site.soft_cap},
                 mask, site.bias ? Bias::table(*site.bias) : Bias());
}

}  // namespace qkv::inline explaining
