// Layers of every kind behind one form, so that one question can be asked of all: a layer of drawn weights with its
// inputs, as it is used, as it is trained, and backward.
#pragma once

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "lab/layers/convolution.h"
#include "lab/layers/recurrent.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/transformer.h"

namespace qkv::testing {

using Tensors = std::map<std::string, Tensor>;

// Whatever is taken of `weights` is drawn, unless it is in `tensors`, and kept there.
struct Drawn {
  explicit Drawn(Dtype dtype = Dtype::f64, Tensors given = {}, double spread = 0.4)
      : tensors(std::move(given)),
        weights(
            [this, dtype, spread](const auto& name, const Dims& shape) {
              const auto [own, is_new] = tensors.try_emplace(name);
              if (is_new) own->second = normal(random, shape, dtype, spread);
              return own->second;
            },
            dtype) {}
  Drawn(const Drawn&) = delete;

  Random random{1};
  Tensors tensors;
  Weights weights;
};

// Of sequences or rows.
struct Request {
  Dtype dtype = Dtype::f64;
  std::vector<std::int64_t> lengths{}, memory{};  // `memory`: of what the others attend to
  bool ragged = true;                             // otherwise all lengths are equal
  Dropout dropout{};
  Tensors weights{};  // those that are not drawn
  std::uint64_t seed = 2;

  Tensor draw(const std::vector<std::int64_t>& of, const Dims& element) const {
    Dims shape = ragged || of.size() == 1 ? Dims{std::accumulate(of.begin(), of.end(), std::int64_t{0})}
                                          : Dims{std::ssize(of), of[0]};
    for (const std::int64_t size : element) shape.push_back(size);
    Random random(seed + of.size() + static_cast<std::uint64_t>(shape[0]));
    return normal(random, shape, dtype);
  }
};

enum class Pass { use, train };
using Outputs = std::vector<Tensor>;
using Places = std::vector<MutableTensorView>;

inline std::vector<Tensor> normal_like(const std::vector<Tensor>& outputs, std::uint64_t seed = 7) {
  Random random(seed);
  std::vector<Tensor> drawn;
  for (const Tensor& out : outputs) drawn.push_back(normal(random, out.shape(), out.dtype()));
  return drawn;
}

inline std::vector<Tensor> zeros_like(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> zeros;
  for (const Tensor& tensor : tensors) zeros.push_back(Tensor::zeros(tensor.shape(), tensor.dtype()));
  return zeros;
}

inline Places places(std::vector<Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

// Tensors of the entries of a batch behind one another.
inline Tensor joined(const std::vector<Tensor>& parts, int axis) {
  Dims shape = parts[0].shape();
  shape[static_cast<std::size_t>(axis)] = 0;
  for (const Tensor& part : parts) shape[static_cast<std::size_t>(axis)] += part.size(axis);
  Tensor whole = Tensor::uninitialized(shape, parts[0].dtype());
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    convert(part, whole.view().slice(axis, begin, begin + part.size(axis)));
    begin += part.size(axis);
  }
  return whole;
}

class AskedLayer {
 public:
  explicit AskedLayer(const Request& ask) : request(ask), drawn(ask.dtype, ask.weights) {}
  virtual ~AskedLayer() = default;

  virtual Outputs run(Pass pass, int threads) = 0;
  // Behind a pass of training: adds to the gradients of the inputs, where there is a place, and of the parameters.
  virtual void backward(const Outputs& grad_out, const Places& to, int threads) = 0;
  virtual void visit(const ParameterVisitor&) const {}
  virtual void update(const ParameterUpdater&) {}

  Sequences sequences(std::size_t input) const {
    const Tensor &rows = inputs[input], &own = input == 0 ? offsets : memory_offsets;
    return request.ragged ? Sequences(rows, own) : Sequences(rows);
  }

  const Request request;
  Drawn drawn;
  std::vector<Tensor> inputs{};  // those that have gradients
  int batch_axis = 0;            // of the inputs and outputs behind the first
  bool drops = false;            // it has a use for dropout
  const Tensor offsets = offsets_of(request.lengths), memory_offsets = offsets_of(request.memory);
};

// One pass forward and backward, with drawn gradients of the outputs; all gradients are wanted.
struct Training {
  Training(AskedLayer& layer, int threads, int turns = 1) {
    layer.update([](const std::string&, Parameter& own) { own.want_gradient(); });
    out = layer.run(Pass::train, threads);
    grad_out = normal_like(out);
    grad_in = zeros_like(layer.inputs);
    for (int turn = 0; turn < turns; ++turn) layer.backward(grad_out, places(grad_in), threads);
  }
  Outputs out, grad_out;
  std::vector<Tensor> grad_in{};
};

// Of twice the outputs times some numbers: what backward adds in two turns.
inline void expect_slopes(AskedLayer& layer, double tolerance = 1e-8) {
  const Training done(layer, 0, 2);
  const auto loss = [&] {
    const Outputs outputs = layer.run(Pass::train, 0);
    double sum = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) sum += 2 * dot(outputs[i], done.grad_out[i]);
    return sum;
  };
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    expect_gradient(loss, layer.inputs[i], done.grad_in[i], tolerance);
  }
  Trained<AskedLayer> trained{layer};
  expect_parameter_gradients(trained, loss, tolerance);
}

template <class Layer>
struct AskedOf : AskedLayer {
  template <class Config>
  AskedOf(const Config& config, const Request& ask) : AskedLayer(ask), layer(config, drawn.weights) {}
  void visit(const ParameterVisitor& visitor) const override { layer.visit(visitor); }
  void update(const ParameterUpdater& updater) override { layer.update(updater); }

  Layer layer;
};

// One input, one output, nothing kept.
template <class Layer>
struct PlainAsked : AskedOf<Layer> {
  template <class Config>
  PlainAsked(const Config& config, const Dims& element, const Request& ask) : AskedOf<Layer>(config, ask) {
    this->inputs = {ask.draw(ask.lengths, element)};
  }
  Outputs run(Pass, int threads) override {
    if constexpr (std::is_same_v<Layer, LayerNorm>) {
      return {this->layer.forward(x(), {}, threads)};
    } else {
      return {this->layer.forward(x(), threads)};
    }
  }
  void backward(const Outputs& grad_out, const Places& to, int threads) override {
    this->layer.backward(x(), grad_out[0], to[0], threads);
  }

 private:
  auto x() const {
    if constexpr (requires { this->layer.forward(this->sequences(0), 0); }) {
      return this->sequences(0);
    } else {
      return this->inputs[0].view();
    }
  }
};

inline std::map<std::string, RecurrentCell> recurrent_cells() {
  return {{"rnn_tanh", RecurrentCell::rnn_tanh},
          {"rnn_relu", RecurrentCell::rnn_relu},
          {"lstm", RecurrentCell::lstm},
          {"gru", RecurrentCell::gru}};
}

// Inputs and outputs are rows, hidden states and, of an LSTM, cell states.
struct RecurrentAsked : AskedOf<Recurrent> {
  RecurrentAsked(const RecurrentConfig& config, const Request& ask) : AskedOf<Recurrent>(config, ask) {
    Random random(ask.seed);
    const Dims states{config.layers * config.directions, std::ssize(ask.lengths), config.hidden};
    inputs = {ask.draw(ask.lengths, {config.in}), normal(random, states, ask.dtype)};
    if (has_cell()) inputs.push_back(normal(random, states, ask.dtype));
    batch_axis = 1;
    drops = config.layers > 1;
  }
  Outputs run(Pass pass, int threads) override {
    const RecurrentStates<TensorView> initial = states<TensorView>(inputs);
    RecurrentOutput result = pass == Pass::use ? layer.forward(sequences(0), initial, threads)
                                               : layer.forward(sequences(0), initial, request.dropout, saved, threads);
    Outputs all{std::move(result.out), std::move(result.states.hidden)};
    if (has_cell()) all.push_back(std::move(result.states.cell));
    return all;
  }
  void backward(const Outputs& grad_out, const Places& to, int threads) override {
    layer.backward(sequences(0), states<TensorView>(inputs), request.dropout, saved,
                   {.out = grad_out[0], .states = states<TensorView>(grad_out)},
                   {.x = to[0], .initial = states<MutableTensorView>(to)}, threads);
  }

  bool has_cell() const { return layer.config().cell == RecurrentCell::lstm; }
  template <class View, class All>
  RecurrentStates<View> states(const All& all) const {
    return {.hidden = all[1], .cell = has_cell() ? View(all[2]) : View()};
  }

  RecurrentSaved saved;
};

struct HeadsConfig {
  MultiHeadAttentionConfig layer{};
  bool cross = false;  // keys and values of inputs of their own
  Mask mask{};
  bool biased = false;  // the logits, by the places of query and key
};

// Fewer heads of keys and values, beside extra keys.
inline MultiHeadAttentionConfig grouped_heads() {
  return {.model_dim = 6,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 3,
          .projection_bias = {.key = false, .out = false},
          .bias_kv = true,
          .zero_attention = true,
          .soft_cap = 2};
}

struct HeadsAsked : AskedOf<MultiHeadAttention> {
  HeadsAsked(const HeadsConfig& heads, const Request& ask)
      : AskedOf<MultiHeadAttention>(heads.layer, ask), config(heads) {
    const MultiHeadAttentionConfig& own = layer.config();
    inputs = {ask.draw(ask.lengths, {own.model_dim})};
    drops = true;
    if (config.cross) {
      inputs.push_back(ask.draw(ask.memory, {own.key_input_dim}));
      inputs.push_back(ask.draw(ask.memory, {own.value_input_dim}));
    }
    Random random(ask.seed);
    const std::vector<std::int64_t>& keys = config.cross ? ask.memory : ask.lengths;
    bias = normal(random, {1, own.heads, std::ranges::max(ask.lengths), std::ranges::max(keys)}, ask.dtype);
  }
  Outputs run(Pass pass, int threads) override {
    if (pass == Pass::use) return {layer.forward(of(0), of(1), of(2), options(threads, {}))};
    return {layer.forward(of(0), of(1), of(2), options(threads, request.dropout), saved)};
  }
  void backward(const Outputs& grad_out, const Places& to, int threads) override {
    layer.backward(of(0), of(1), of(2), options(threads, request.dropout), saved, grad_out[0],
                   {to[0], to[config.cross ? 1 : 0], to[config.cross ? 2 : 0]});
  }

  Sequences of(std::size_t role) const { return sequences(config.cross ? role : 0); }
  MultiHeadAttentionOptions options(int threads, const Dropout& dropout) const {
    return {
        .mask = config.mask, .bias = config.biased ? Bias::view(bias) : Bias(), .dropout = dropout, .threads = threads};
  }

  HeadsConfig config;
  MultiHeadAttentionSaved saved;
  Tensor bias;
};

// to += from, where there is a place.
inline void add_to_place(const MutableTensorView& to, const Tensor& from) {
  if (!to) return;
  const std::vector<double> there = values(to);
  Tensor sum = convert(from, Dtype::f64);
  for (std::size_t i = 0; i < there.size(); ++i) sum.data<double>()[i] += there[i];
  convert(sum, to);
}

template <class Layer>  // EncoderLayer; or DecoderLayer, whose second input is a memory
struct LayerAsked : AskedOf<Layer> {
  static constexpr bool kHasMemory = std::is_same_v<Layer, DecoderLayer>;

  LayerAsked(const TransformerLayerConfig& config, const Request& ask) : AskedOf<Layer>(config, ask) {
    this->inputs = {ask.draw(ask.lengths, {config.model_dim})};
    if (kHasMemory) this->inputs.push_back(ask.draw(ask.memory, {config.model_dim}));
    this->drops = true;
  }
  Outputs run(Pass pass, int threads) override {
    if (pass == Pass::use) return {this->layer.run(input(threads), nullptr)};
    return {this->layer.run(input(threads), this->request.dropout, saved)};
  }
  void backward(const Outputs& grad_out, const Places& to, int threads) override {
    const MutableTensorView to_memory = kHasMemory ? to[1] : MutableTensorView();
    add_to_place(to[0], this->layer.run_backward(input(threads), this->request.dropout, saved, grad_out[0], to_memory));
  }

  TransformerLayerInput input(int threads) const {
    if constexpr (kHasMemory) {
      return {this->sequences(0), this->sequences(1), {.threads = threads}};
    } else {
      return {this->sequences(0), {.mask = Mask::window(1, 1), .threads = threads}};
    }
  }

  TransformerLayerSaved saved;
};

// Of source and target.
struct TransformerAsked : AskedOf<Transformer> {
  TransformerAsked(const TransformerConfig& config, const Request& ask) : AskedOf<Transformer>(config, ask) {
    inputs = {ask.draw(ask.lengths, {config.layer.model_dim}), ask.draw(ask.memory, {config.layer.model_dim})};
    drops = true;
  }
  Outputs run(Pass pass, int threads) override {
    if (pass == Pass::use) return {layer.forward(sequences(0), sequences(1), {.threads = threads})};
    return {layer.forward(sequences(0), sequences(1), {.threads = threads}, request.dropout, saved)};
  }
  void backward(const Outputs& grad_out, const Places& to, int threads) override {
    const TransformerGradients both =
        layer.backward(sequences(0), sequences(1), {.threads = threads}, request.dropout, saved, grad_out[0]);
    add_to_place(to[0], both.source);
    add_to_place(to[1], both.target);
  }

  TransformerSaved saved;
};

using Maker = std::function<std::unique_ptr<AskedLayer>(const Request&)>;

template <class Asked, class... Of>
Maker asked(const Of&... of) {
  return [=](const Request& ask) -> std::unique_ptr<AskedLayer> { return std::make_unique<Asked>(of..., ask); };
}

inline Maker linear(const LinearConfig& config) { return asked<PlainAsked<Linear>>(config, Dims{config.in}); }
inline Maker norm(const LayerNormConfig& config) { return asked<PlainAsked<LayerNorm>>(config, Dims{config.dim}); }
inline Maker conv1d(const Conv1dConfig& config) { return asked<PlainAsked<Conv1d>>(config, Dims{config.in}); }
inline Maker recurrent(const RecurrentConfig& config) { return asked<RecurrentAsked>(config); }
inline Maker heads(const HeadsConfig& config) { return asked<HeadsAsked>(config); }
inline Maker encoder(const EncoderLayerConfig& config) { return asked<LayerAsked<EncoderLayer>>(config); }
inline Maker decoder(const DecoderLayerConfig& config) { return asked<LayerAsked<DecoderLayer>>(config); }
inline Maker transformer(const TransformerConfig& config) { return asked<TransformerAsked>(config); }

}  // namespace qkv::testing
