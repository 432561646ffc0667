// Embeddings, body and projection of a sequence model, forward and backward.
#include "lab/models/sequence_model.h"

#include <cmath>
#include <map>

#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "qkv/layers/initial_weights.h"

namespace qkv::comparison {
namespace {

constexpr const char* kEmbedding = "embedding.";
constexpr const char* kBody = "body.";

std::unique_ptr<SequenceBody> make_body(const SequenceModelConfig& config, Weights& weights) {
  const BodySize size{.in = config.embedding, .width = config.width};
  if (config.kind == SequenceKind::cnn) return make_convolution_body(size, weights, kBody);
  if (config.kind == SequenceKind::transformer) return make_transformer_body(size, weights, kBody);
  return make_recurrent_body(config.kind, size, weights, kBody);
}

}  // namespace

SequenceModel::SequenceModel(const SequenceModelConfig& config, Weights weights)
    : config_(config),
      embedding_({.count = config.vocab, .dim = config.embedding}, weights, kEmbedding),
      body_(make_body(config, weights)),
      out_weight_{.value = weights.take("out.weight", {config.vocab, body_->out()})},
      out_bias_{.value = weights.take("out.bias", {config.vocab})} {}

SequenceModel::SequenceModel(const SequenceModelConfig& config, std::uint64_t seed, Dtype dtype)
    : SequenceModel(config, initial_weights(seed, dtype)) {
  body_->draw(seed);
  const double deviation = std::sqrt(static_cast<double>(config.embedding));
  embedding_.update([&](const std::string&, Parameter& table) {
    visit_f32_f64(dtype, [&]<class T>(T) {
      T* values = table.value.data<T>();
      std::transform(values, values + table.value.element_count(), values,
                     [&](T value) { return static_cast<T>(static_cast<double>(value) * deviation); });
    });
  });
}

SequenceModel::SequenceModel(const SequenceModel& other, Dtype dtype) : SequenceModel(other.config_, 0, dtype) {
  std::map<std::string, Tensor> values;
  other.visit([&](const std::string& name, const Parameter& p) { values[name] = convert(p.value, dtype); });
  update([&](const std::string& name, Parameter& p) { p.value = std::move(values.at(name)); });
}

Tensor SequenceModel::project(const Tensor& rows) const {
  Tensor out = Tensor::uninitialized({rows.size(0), config_.vocab}, rows.dtype());
  matmul(rows, PackedMatrix(out_weight_.value.view().transpose(0, 1)), out, {.bias = out_bias_.value});
  return out;
}

Tensor SequenceModel::logits(const SequenceBatch& batch) const {
  return project(body_->forward({embedding_.forward(batch.tokens), batch.offsets}, nullptr));
}

LossSum SequenceModel::loss(const SequenceBatch& batch) const {
  const Tensor rows = body_->forward({embedding_.forward(batch.tokens), batch.offsets}, nullptr);
  LossSum sum = cross_entropy({.weight = out_weight_.value, .bias = out_bias_.value}, rows, batch.labels);
  sum.metric = count_right(project(rows), batch.labels);
  return sum;
}

Tensor SequenceModel::backward(const SequenceBatch& batch, LossSum& loss) {
  const Tensor x = embedding_.forward(batch.tokens);
  BodySaved saved;
  const Tensor rows = body_->forward({x, batch.offsets}, &saved);
  Tensor grad_rows = Tensor::zeros(rows.shape(), rows.dtype());
  loss = cross_entropy({.weight = out_weight_.value, .bias = out_bias_.value}, rows, batch.labels, {},
                       {.hidden = grad_rows, .weight = gradient_view(out_weight_), .bias = gradient_view(out_bias_)});
  Tensor grad = body_->backward({x, batch.offsets}, saved, grad_rows);
  embedding_.backward(batch.tokens, grad);
  return grad;
}

LossSum SequenceModel::backward(const SequenceBatch& batch, std::uint64_t) {
  LossSum loss;
  backward(batch, loss);
  return loss;
}

Tensor SequenceModel::input_gradients(const SequenceBatch& batch) {
  LossSum loss;
  return backward(batch, loss);
}

Tensor SequenceModel::Reader::read(std::int32_t token) {
  return model_.project(steps_->step(model_.embedding_.forward(std::span(&token, 1))));
}

SequenceGraph SequenceModel::graph(std::int64_t length) const {
  SequenceGraph sequence;
  for (std::int64_t t = 0; t < length; ++t) sequence.inputs.push_back(sequence.graph.add_input());
  sequence.outputs = body_->connect(sequence.graph, sequence.inputs);
  return sequence;
}

// Every matrix multiplies each token, but for the table, out of which a row is taken.
double SequenceModel::weight_operations() const {
  double elements = 0;
  const auto count = [&](const std::string&, const Parameter& parameter) {
    if (parameter.value.rank() > 1) elements += static_cast<double>(parameter.value.element_count());
  };
  body_->visit(count, kBody);
  count("", out_weight_);
  return 2 * elements;
}

double SequenceModel::operations_at_once(std::int64_t length) const {
  return weight_operations() + body_->attention_operations(length) / static_cast<double>(length);
}

double SequenceModel::operations_in_turn(std::int64_t length) const {
  return weight_operations() + body_->attention_step_operations(length);
}

void SequenceModel::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(embedding_, scope + kEmbedding);
  walk(*body_, scope + kBody);
  walk(out_weight_, scope + "out.weight");
  walk(out_bias_, scope + "out.bias");
}

}  // namespace qkv::comparison
