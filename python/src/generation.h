// Common parts of models of texts.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "qkv/decode/generate.h"
#include "qkv/matmul.h"
#include "qkv/pipelines/class_probability.h"
#include "qkv/text/tokenizer.h"

namespace qkv::python {

// temperature, top_k, top_p and seed: with any of them tokens are sampled; the others are as in `begin`.
inline std::optional<Sampling> read_sampling(Keywords& keywords, const Sampling& begin) {
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  keywords.read("temperature", temperature, "top_k", top_k, "top_p", top_p, "seed", seed);
  if (!temperature && !top_k && !top_p && !seed) return std::nullopt;
  Sampling sampling = begin;
  sampling.temperature = temperature.value_or(sampling.temperature);
  sampling.top_k = top_k.value_or(sampling.top_k);
  sampling.top_p = top_p.value_or(sampling.top_p);
  sampling.seed = seed.value_or(sampling.seed);
  return sampling;
}

// The results of `find`, a list of the best for each source, as lists; `convert` makes each result an object.
template <class Find, class Convert>
nb::list found_by(const Find& find, const Convert& convert) {
  auto found = run_released(find);
  nb::list results;
  for (auto& best : found) {
    nb::list list;
    for (auto& each : best) list.append(convert(each));
    results.append(list);
  }
  return results;
}

inline nb::list classes_of(const std::vector<ClassProbability>& found) {
  nb::list classes;
  for (const auto& [label, probability] : found) classes.append(nb::make_tuple(give_text(label), probability));
  return classes;
}

// How a model's matrices are kept, by `weights` and `precision` as Python says them.
inline WeightStorage take_storage(nb::handle weights, nb::handle precision) {
  const auto storage = take_choice<WeightStorage>(weights, "weights", kWeightStorages);
  return with_precision(storage, take_choice<Precision>(precision, "precision", kPrecisions));
}

// __init__: opens the model in a folder.
template <class Model>
void load_weights(Model* place, nb::handle folder, nb::handle weights, nb::handle precision) {
  const std::string path = take_text(folder, "folder");
  const WeightStorage storage = take_storage(weights, precision);
  new (place) Model(run_released([&] { return Model::load(path, storage); }));
}

// The class of a model in a folder with a tokenizer.
template <class Model>
auto add_model(nb::module_& module, const char* name) {
  auto described = add_class<Model>(module, name);
  described.def("__init__", &load_weights<Model>, "folder"_a, "weights"_a, "precision"_a)
      .def("tokenizer", [](const Model& model) { return Tokenizer(model.tokenizer()); });
  return described;
}

}  // namespace qkv::python
