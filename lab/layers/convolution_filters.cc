// ConvolutionFilters: the weight as torch has it, and laid out for products with windows.
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "lab/layers/convolution.h"
#include "layers/basic/layer_checks.h"

namespace qkv {
namespace {

// [out, in, kernel...] as [out, taps, in], of one group.
template <class View>
View taps_first(const View& weight, std::int64_t first, std::int64_t count) {
  const Dims shape{weight.size(0), weight.size(1), weight.element_count() / (weight.size(0) * weight.size(1))};
  return weight.reshape(shape).slice(0, first, first + count).transpose(1, 2);
}

}  // namespace

ConvolutionFilters::ConvolutionFilters(const Config& config, Weights& weights, const std::string& scope)
    : config_(config), storage_(weights.storage()) {
  const std::string layer = config.kernel.size() == 1 ? "conv1d" : "conv2d";
  check_size(layer, "in", config.in);
  check_size(layer, "out", config.out);
  check_size(layer, "groups", config.groups);
  if (config.in % config.groups != 0 || config.out % config.groups != 0) {
    refuse(layer, "{} groups must divide in, {}, and out, {}", config.groups, config.in, config.out);
  }
  Dims shape{config.out, group_in()};
  for (const std::int64_t extent : config.kernel) shape.push_back(extent);
  weight_.value = weights.take(scope + "weight", shape);
  if (config.bias) bias_.value = weights.take(scope + "bias", {config.out});
  pack();
}

TensorView ConvolutionFilters::bias(std::int64_t group) const {
  return config_.bias ? bias_.value.view().slice(0, group * group_out(), (group + 1) * group_out()) : TensorView();
}

Tensor ConvolutionFilters::matrix(std::int64_t group) const {
  Tensor matrix = Tensor::uninitialized({group_out(), taps() * group_in()}, dtype());
  convert(taps_first(weight_.value.view(), group * group_out(), group_out()),
          matrix.view().reshape({group_out(), taps(), group_in()}));
  return matrix;
}

void ConvolutionFilters::pack() {
  parts_.clear();
  for (std::int64_t group = 0; group < config_.groups; ++group) {
    const Tensor own = matrix(group);
    parts_.emplace_back(own.view().transpose(0, 1), 0, storage_);
  }
}

void ConvolutionFilters::add_weight_gradient(std::int64_t group, const Tensor& gradient) {
  const MutableTensorView to = taps_first(weight_.gradient.view(), group * group_out(), group_out());
  const auto add = [&]<class T>(T) {
    const T* next = gradient.data<T>();
    for (std::int64_t o = 0; o < group_out(); ++o) {
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        T* filter = to.data<T>() + o * to.stride(0) + tap * to.stride(1);
        for (std::int64_t c = 0; c < group_in(); ++c) filter[c * to.stride(2)] += *next++;
      }
    }
  };
  visit_f32_f64(dtype(), add);
}

MutableTensorView ConvolutionFilters::bias_gradient(std::int64_t group) {
  if (!bias_.has_gradient()) return {};
  return bias_.gradient.view().slice(0, group * group_out(), (group + 1) * group_out());
}

void ConvolutionFilters::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
  if (config_.bias) visitor(scope + "bias", bias_);
}

void ConvolutionFilters::update(const ParameterUpdater& updater, const std::string& scope) {
  updater(scope + "weight", weight_);
  if (config_.bias) updater(scope + "bias", bias_);
  pack();
}

}  // namespace qkv
