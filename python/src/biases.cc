// Biases and scores: arrays, ALiBi, tables of relative positions; scores with parameters.
#include <fmt/format.h>

#include <utility>

#include "arguments.h"
#include "values.h"

namespace qkv::python {
namespace {

Bias bias_of(std::string_view name, const TensorView& array, const nb::list& arguments) {
  const auto at = [&](std::size_t i) { return nb::object(arguments[i]); };
  if (name == "view") return Bias::view(array);
  if (name == "alibi") return Bias::alibi(array);
  if (name == "clipped") return Bias::clipped(array);
  if (name == "shaw") return Bias::shaw(array);
  if (name == "t5") {
    return Bias::t5(
        array, {.bidirectional = take_flag(at(1), "bidirectional"), .max_distance = take_whole(at(2), "max_distance")});
  }
  if (name != "swin") throw std::invalid_argument(fmt::format("there is no bias {}", name));
  return Bias::swin(array, take_whole(at(1), "height"), take_whole(at(2), "width"));
}

}  // namespace

BiasValue bias_part(std::string_view name, const nb::list& arguments, TakeFloats take) {
  BiasValue made;
  made.arrays.push_back(take(nb::object(arguments[0]), name == "view"    ? "values"
                                                       : name == "alibi" ? "slopes"
                                                                         : "table"));
  made.value = bias_of(name, made.arrays.back().view, arguments);
  return made;
}

ScoreValue score_part(std::string_view name, const nb::list& arguments, TakeFloats take) {
  std::vector<Array> arrays;
  const auto view = [&](std::size_t i, const char* parameter) {
    return arrays.emplace_back(take(nb::object(arguments[i]), parameter)).view;
  };
  const auto made = [&] {
    if (name == "additive") {
      const TensorView query = view(0, "w_query"), key = view(1, "w_key");
      return Score::additive(query, key, view(2, "v"));
    }
    if (name != "concat" && name != "bilinear") throw std::invalid_argument(fmt::format("there is no score {}", name));
    const TensorView w = view(0, "w");
    return name == "bilinear" ? Score::bilinear(w) : Score::concat(w, view(1, "v"));
  };
  Score score = made();
  return {std::move(score), std::move(arrays)};
}

BiasValue take_bias(nb::handle object, std::string_view name, TakeFloats take) {
  BiasValue made;
  const nb::object parts = parts_of(object, "Bias");
  if (parts.is_valid()) {
    for (const nb::handle part : parts) {
      const nb::list arguments{nb::object(part[1])};
      made.value = made.value + keep(bias_part(text_of(nb::object(part[0]), name), arguments, take), made.arrays);
    }
    return made;
  }
  if (!nb::hasattr(object, "__dlpack__")) {
    refuse_type(object, name, "a bias such as qkv.Bias.alibi(slopes), or an array of floats");
  }
  made.arrays.push_back(take(object, name));
  made.value = Bias::view(made.arrays.back().view);
  return made;
}

ScoreValue take_score(nb::handle object, std::string_view name, TakeFloats take) {
  if (PyUnicode_Check(object.ptr())) {
    return {take_choice<Score>(object, name, {{"scaled_dot", Score::scaled_dot()}, {"dot", Score::dot()}})};
  }
  const nb::object parts = parts_of(object, "Score");
  if (!parts.is_valid() || nb::len(parts) != 1) {
    refuse_type(object, name, "\"scaled_dot\", \"dot\" or a score such as qkv.Score.bilinear(w)");
  }
  const nb::object part = parts[0];
  return score_part(text_of(nb::object(part[0]), name), nb::list(nb::object(part[1])), take);
}

}  // namespace qkv::python
