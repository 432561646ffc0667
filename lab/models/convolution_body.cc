// A sequence model's body of causal, dilated convolutions: x = x + relu(conv(x)), without the sum where sizes differ.
// Source: van den Oord et al., "WaveNet" (2016); Bai et al., "An empirical evaluation of generic convolutional and
// recurrent networks for sequence modeling" (2018).
#include <algorithm>
#include <map>

#include "core/visit_dtype.h"
#include "lab/layers/convolution.h"
#include "lab/models/sequence_body.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kKernel = 3;
constexpr std::int64_t kDilations[] = {1, 2, 4, 8};

// y = max(0, y), and x added where it has y's shape.
void activate(const TensorView& x, Tensor& y) {
  const bool adds = x.shape() == y.shape();
  visit_f32_f64(y.dtype(), [&]<class T>(T) {
    T* to = y.data<T>();
    const T* from = x.data<T>();
    const std::int64_t count = y.element_count();
    for (std::int64_t i = 0; i < count; ++i) to[i] = std::max(to[i], T{0}) + (adds ? from[i] : T{0});
  });
}

// grad = 0 where the product was not above 0.
void pass_positive(const Tensor& product, Tensor& grad) {
  visit_f32_f64(grad.dtype(), [&]<class T>(T) {
    T* to = grad.data<T>();
    const T* from = product.data<T>();
    const std::int64_t count = grad.element_count();
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] > 0 ? to[i] : T{0};
  });
}

class ConvolutionBody : public SequenceBody {
 public:
  ConvolutionBody(const BodySize& size, Weights& weights, const std::string& scope) : in_(size.in), width_(size.width) {
    for (const std::int64_t dilation : kDilations) {
      layers_.emplace_back(
          Conv1dConfig{
              .in = in(layers_.size()), .out = width_, .kernel = kKernel, .dilation = dilation, .causal = true},
          weights, scope_of(scope, layers_.size()));
    }
  }

  std::int64_t in(std::size_t layer) const { return layer == 0 ? in_ : width_; }
  std::int64_t out() const override { return width_; }
  static std::string scope_of(const std::string& scope, std::size_t layer) {
    return scope + "layers." + std::to_string(layer) + ".";
  }

  Tensor forward(const Sequences& x, BodySaved* saved) const override {
    if (saved != nullptr) *saved = {};
    Tensor rows = Tensor::copy(x.rows);
    for (const Conv1d& layer : layers_) {
      Tensor product = layer.forward({rows, x.offsets});
      if (saved != nullptr) saved->convolved.push_back(product);
      activate(rows, product);
      if (saved != nullptr) saved->between.push_back(std::move(rows));
      rows = std::move(product);
    }
    return rows;
  }

  Tensor backward(const Sequences& x, const BodySaved& saved, const Tensor& grad_out) override {
    Tensor grad = grad_out;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Tensor& rows = saved.between[i];
      Tensor before = rows.shape() == grad.shape() ? grad : Tensor::zeros(rows.shape(), grad.dtype());
      pass_positive(saved.convolved[i], grad);
      layers_[i].backward({rows, x.offsets}, grad, before);
      grad = std::move(before);
    }
    return grad;
  }

  std::unique_ptr<BodySteps> steps() const override;

  std::vector<DependencyGraph::Node> connect(DependencyGraph& graph,
                                             const std::vector<DependencyGraph::Node>& inputs) const override {
    std::vector<DependencyGraph::Node> nodes = inputs;
    for (const std::int64_t dilation : kDilations) {
      std::vector<DependencyGraph::Node> next;
      for (std::int64_t t = 0; t < std::ssize(nodes); ++t) {
        std::vector<DependencyGraph::Node> needs;
        for (std::int64_t from = t; from >= 0 && from > t - kKernel * dilation; from -= dilation) {
          needs.push_back(nodes[static_cast<std::size_t>(from)]);
        }
        next.push_back(graph.add_step(std::move(needs)));
      }
      nodes = std::move(next);
    }
    return nodes;
  }
  double attention_operations(std::int64_t) const override { return 0; }
  double attention_step_operations(std::int64_t) const override { return 0; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override {
    for (std::size_t i = 0; i < layers_.size(); ++i) walk(layers_[i], scope_of(scope, i));
  }

  std::int64_t in_, width_;
  std::vector<Conv1d> layers_;
};

// A token needs only the window of the newest position in each layer, three rows.
class ConvolutionSteps : public BodySteps {
 public:
  explicit ConvolutionSteps(const ConvolutionBody& body) {
    std::map<std::string, Tensor> values;
    body.visit([&](const std::string& name, const Parameter& p) { values[name] = p.value; }, "");
    const Dtype dtype = values.begin()->second.dtype();
    Weights weights(std::move(values), "steps", dtype);
    for (std::size_t i = 0; i < std::size(kDilations); ++i) {
      layers_.push_back(
          {.before{},
           .window{
               {.in = body.in(i), .out = body.out(), .kernel = kKernel}, weights, ConvolutionBody::scope_of("", i)}});
    }
  }

  Tensor step(const Tensor& row) override {
    Tensor rows = row;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      std::vector<Tensor>& before = layers_[i].before;
      before.push_back(rows);
      Tensor window = Tensor::zeros({kKernel, rows.size(1)}, rows.dtype());
      for (std::int64_t k = 0; k < kKernel; ++k) {
        const std::int64_t from = std::ssize(before) - 1 - (kKernel - 1 - k) * kDilations[i];
        if (from >= 0) convert(before[static_cast<std::size_t>(from)], window.view().slice(0, k, k + 1));
      }
      if (std::ssize(before) > (kKernel - 1) * kDilations[i]) before.erase(before.begin());
      Tensor product = layers_[i].window.forward(window);
      activate(rows, product);
      rows = std::move(product);
    }
    return rows;
  }

 private:
  struct Layer {
    std::vector<Tensor> before;  // rows that came in, the newest last
    Conv1d window;               // with the layer's weights
  };
  std::vector<Layer> layers_;
};

std::unique_ptr<BodySteps> ConvolutionBody::steps() const { return std::make_unique<ConvolutionSteps>(*this); }

}  // namespace

std::unique_ptr<SequenceBody> make_convolution_body(const BodySize& size, Weights& weights, const std::string& scope) {
  return std::make_unique<ConvolutionBody>(size, weights, scope);
}

}  // namespace qkv::comparison
