// The example that the well-known tutorials on self-attention share.
#include "qkv/explain/explain.h"

namespace qkv {

ExplainInput worked_example() {
  const auto matrix = [](std::int64_t rows, std::int64_t columns, const std::vector<double>& values) {
    return Tensor::of<double>({rows, columns}, values);
  };
  ExplainInput example;
  example.title = "Self-attention step by step: the worked example";
  example.inputs = matrix(3, 4, {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1});
  example.w_query = matrix(4, 3, {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1});
  example.w_key = matrix(4, 3, {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0});
  example.w_value = matrix(4, 3, {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0});
  example.weights_origin =
      "Here they are small whole numbers, picked by the tutorials so that everything can be "
      "checked by hand.";
  example.score = Score::Kind::dot;
  example.tutorial = true;
  return example;
}

}  // namespace qkv
