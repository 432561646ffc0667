// The slope of a model's loss along one of its numbers.
#pragma once

#include "lab/models/sequence_model.h"

namespace qkv::comparison {

// By the losses 1e-6 of it above and below; place(value) is its number in the parameter of that name.
template <class Place>
double slope_of_loss(SequenceModel& model, const SequenceBatch& batch, const std::string& name, const Place& place) {
  const auto loss_at = [&](double moved) {
    model.update([&](const std::string& own, Parameter& p) {
      if (own == name) p.value.data<double>()[place(p.value)] += moved;
    });
    return model.loss(batch).sum;
  };
  const double above = loss_at(1e-6), below = loss_at(-2e-6);
  loss_at(1e-6);
  return (above - below) / 2e-6;
}

}  // namespace qkv::comparison
