// Synthetic input: random inputs and weights for a walk-through of which the user gave only a part.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/stop.h"
#include "explain/observe/intermediates.h"
#include "qkv/explain/explain.h"
#include "qkv/random.h"

namespace qkv {
namespace {

// Streams of the random numbers: giving one matrix leaves the others as they were.
enum Stream : std::uint64_t {
  kInputs,
  kQuery,
  kKey,
  kValue,
  kScoreQuery,
  kScoreKey,
  kScore,
  kScoreV,
  kStreams,
  kOut = 1u << 31
};

// Generates matrices of one choice.
struct Generator {
  std::uint64_t seed;

  Tensor normal(const Dims& shape, double deviation, Stream stream) const {
    Random random(seed * kStreams + stream);
    Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
    double* values = tensor.data<double>();
    const std::int64_t columns = shape[shape.size() - 1];
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      if (i % columns == 0) check_stop();
      values[i] = deviation * random.normal();
    }
    return tensor;
  }
};

// Sources: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010);
// He et al., "Delving deep into rectifiers" (2015).
double deviation(Init init, std::int64_t from, std::int64_t to) {
  switch (init) {
    case Init::xavier:
      return std::sqrt(2.0 / static_cast<double>(from + to));
    case Init::kaiming:
      return std::sqrt(2.0 / static_cast<double>(from));
    case Init::normal:
      break;
  }
  return 1;
}

const char* name_of(Init init) {
  return init == Init::xavier ? "xavier" : init == Init::kaiming ? "kaiming" : "normal";
}

}  // namespace

std::vector<std::string> generate_missing(ExplainInput& input, const SyntheticInput& choice) {
  const StopScope stop(input.stop);
  check_matrices(input);
  const Generator generator{choice.seed};
  const auto columns = [](const Tensor& tensor) { return tensor.size(-1); };

  std::vector<std::string> all;
  if (!given(input.inputs)) {
    input.inputs = generator.normal({choice.inputs, choice.dim}, 1, kInputs);
    all.push_back("inputs");
  }
  const std::int64_t dim = !given(input.w_embed) ? columns(input.inputs) : input.w_embed.size(0);

  std::vector<std::string> generated;
  const auto projection = [&](const char* name, Tensor& weights, std::int64_t size, Stream stream) {
    if (given(weights)) return;
    weights = generator.normal({dim, size}, deviation(choice.init, dim, size), stream);
    generated.push_back(name);
  };
  std::int64_t key_dim = choice.key_dim > 0 ? choice.key_dim : dim;
  if (given(input.w_query)) key_dim = columns(input.w_query);
  if (given(input.w_key)) key_dim = columns(input.w_key);
  projection("w_query", input.w_query, key_dim, kQuery);
  projection("w_key", input.w_key, key_dim, kKey);
  projection("w_value", input.w_value, choice.value_dim > 0 ? choice.value_dim : key_dim, kValue);

  const std::int64_t query_size = columns(input.w_query), key_size = columns(input.w_key);
  std::int64_t hidden = key_size;
  for (const Tensor* weights : {&input.score_w_query, &input.score_w_key, &input.score_w}) {
    if (given(*weights)) hidden = weights->size(0);
  }
  if (given(input.score_v)) hidden = input.score_v.element_count();
  const auto parameter = [&](const char* name, Tensor& weights, const Dims& shape, Stream stream) {
    if (given(weights)) return;
    weights = generator.normal(shape, deviation(choice.init, shape[shape.size() - 1], shape.size() == 2 ? shape[0] : 1),
                               stream);
    generated.push_back(name);
  };
  switch (input.score) {
    case Score::Kind::additive:
      parameter("score_w_query", input.score_w_query, {hidden, query_size}, kScoreQuery);
      parameter("score_w_key", input.score_w_key, {hidden, key_size}, kScoreKey);
      parameter("score_v", input.score_v, {hidden}, kScoreV);
      break;
    case Score::Kind::concat:
      parameter("score_w", input.score_w, {hidden, query_size + key_size}, kScore);
      parameter("score_v", input.score_v, {hidden}, kScoreV);
      break;
    case Score::Kind::bilinear:
      parameter("score_w", input.score_w, {query_size, key_size}, kScore);
      break;
    case Score::Kind::scaled_dot:
    case Score::Kind::dot:
      break;
  }
  if (input.heads != 0 && !given(input.w_out)) {
    const std::int64_t merged = columns(input.w_value);
    input.w_out = generator.normal({merged, dim}, deviation(choice.init, merged, dim), kOut);
    generated.push_back("w_out");
  }
  if (generated.empty()) return all;
  input.weights_origin = fmt::format(
      "Generated at random ({}, seed {}): {}. Nothing has been learned, so who attends to whom "
      "is chance.",
      name_of(choice.init), choice.seed, fmt::join(generated, ", "));
  all.insert(all.end(), generated.begin(), generated.end());
  return all;
}

}  // namespace qkv
