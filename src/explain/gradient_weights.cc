// Joins the weights and values of a run with the gradients of the heads' outputs.
#include "explain/gradient_weights.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "explain/observe.h"

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

}  // namespace qkv::inline explaining
