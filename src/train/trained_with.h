// A model with the options of its training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "qkv/models/trainable.h"

namespace qkv::training {

// Config: has dropout and label_smoothing. `metric`: what LossSum::metric counts; empty: nothing.
template <class Batch, class Model, class Config>
class TrainedWith final : public TrainableOn<Batch> {
 public:
  TrainedWith(Model& model, const Config& config, std::string metric = "")
      : model_(model), config_(config), metric_(std::move(metric)) {}

  std::string metric_name() const override { return metric_; }
  LossSum loss(const Batch& batch) const override { return model_.loss(batch); }
  LossSum backward(const Batch& batch, std::uint64_t dropout_seed) override {
    return model_.backward(
        batch, {.dropout = config_.dropout, .label_smoothing = config_.label_smoothing, .seed = dropout_seed});
  }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(model_, scope); }

  Model& model_;
  const Config& config_;
  const std::string metric_;
};

}  // namespace qkv::training
