// The walk-through of multi-head attention against torch's numbers for the documents' sizes: embedding 6, query size 3,
// 2 heads (golden/multi_head_attention).
#include <cmath>

#include "explain/example.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::matrix;
using test::quantity;

Tensor document_golden(const std::string& name) {
  static const SafeTensors file =
      read_safetensors(QKV_TEST_DATA "/golden/multi_head_attention/multi_head_attention.safetensors");
  return convert(file.tensors.at("document." + name), Dtype::f64);
}

// Rows of a weight of torch, as this side writes it: [in, out].
Tensor weight_columns(const Tensor& weight, std::int64_t begin, std::int64_t end) {
  return Tensor::copy(weight.view().slice(0, begin, end).transpose(0, 1));
}

ExplainInput document() {
  ExplainInput input;
  input.heads = 2;
  input.inputs = Tensor::copy(document_golden("query").view().select(0, 0));
  const Tensor weight = document_golden("weights.in_proj_weight"), bias = document_golden("weights.in_proj_bias");
  Tensor* weights[] = {&input.w_query, &input.w_key, &input.w_value};
  Tensor* biases[] = {&input.b_query, &input.b_key, &input.b_value};
  for (int role = 0; role < 3; ++role) {
    *weights[role] = weight_columns(weight, 6 * role, 6 * role + 6);
    *biases[role] = Tensor::copy(bias.view().slice(0, 6 * role, 6 * role + 6));
  }
  input.w_out = weight_columns(document_golden("weights.out_proj.weight"), 0, 6);
  input.b_out = document_golden("weights.out_proj.bias");
  return input;
}

std::vector<double> values(const TensorView& view) {
  const Tensor copy = Tensor::copy(view);
  return {copy.data<double>(), copy.data<double>() + copy.element_count()};
}

TEST(ExplainHeads, NumbersAreThoseOfTorch) {
  const Explanation explanation = explain(document());
  const Tensor weights = document_golden("weights_f64"), out = document_golden("out_f64");
  // Two double computations with sums in different orders.
  test::expect_values(quantity(explanation, "weights"), {2, 4, 4}, values(weights.view().select(0, 0)), 1e-14);
  test::expect_values(explanation.output, {4, 6}, values(out.view().select(0, 0)), 1e-14);
  EXPECT_EQ(quantity(explanation, "query").shape(), (Dims{2, 4, 3}));
  EXPECT_EQ(quantity(explanation, "merged").shape(), (Dims{4, 6}));
  EXPECT_DOUBLE_EQ(explanation.scale, 1 / std::sqrt(3.0));
  EXPECT_LT(explanation.largest_difference, 1e-13);
}

TEST(ExplainHeads, TellsTheShapeAtEachReshape) {
  const std::string text = to_text(explain(document()));
  EXPECT_TRUE(test::has_line_with(text, "[4, 6] -> [4, 2, 3] -> [2, 4, 3]"));
  EXPECT_TRUE(test::has_line_with(text, "[2, 4, 3] -> [4, 2, 3] -> [4, 6]"));
  EXPECT_TRUE(test::has_line_with(text, "per head: 2 matrices [6, 3]"));
  EXPECT_TRUE(test::has_line_with(text, "two-stage: a shared matrix [6, 6]"));
}

// 2 heads of 3 numbers each.
TEST(ExplainHeads, NamesWhoseColumnsAreWhose) {
  const std::vector<std::string> names = {"head 1.1", "head 1.2", "head 1.3", "head 2.1", "head 2.2", "head 2.3"};
  const Explanation explanation = explain(document());
  std::size_t seen = 0;
  bool said = false;
  for (const Section& section : explanation.sections) {
    for (const Block& block : section.blocks) {
      for (const Line& line : block.lines) {
        for (const Span& span : line) {
          said = said || span.text.ends_with("Head 1 owns columns 1 to 3, head 2 columns 4 to 6.");
        }
      }
      for (const Quantity& one : block.quantities) {
        const bool side_by_side = one.name.starts_with("projected ") || one.name == "merged" || one.name == "w_query" ||
                                  one.name == "w_key" || one.name == "w_value";
        if (!side_by_side && one.name != "w_out") continue;
        EXPECT_EQ(side_by_side ? one.columns : one.rows, names) << one.name;
        ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 8u);
  EXPECT_TRUE(said);
}

TEST(ExplainHeads, LookAheadHidesLaterInputs) {
  ExplainInput input = document();
  input.causal = Align::top_left;
  const Tensor weights = quantity(explain(input), "weights");
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = i + 1; j < 4; ++j) EXPECT_EQ(weights.view().at<double>({h, i, j}), 0.0);
    }
    EXPECT_EQ(weights.view().at<double>({h, 0, 0}), 1.0);
  }
}

TEST(ExplainHeads, RefusesWhatDoesNotFit) {
  const auto refuses = [](auto change) {
    ExplainInput input = document();
    change(input);
    EXPECT_THROW(explain(input), std::invalid_argument);
  };
  refuses([](ExplainInput& input) { input.heads = 4; });
  refuses([](ExplainInput& input) { input.heads = -1; });
  refuses([](ExplainInput& input) { input.w_key = matrix(6, 2, std::vector<double>(12)); });
  refuses([](ExplainInput& input) { input.w_out = matrix(5, 6, std::vector<double>(30)); });
  refuses([](ExplainInput& input) { input.b_out = matrix(1, 5, std::vector<double>(5)); });
  refuses([](ExplainInput& input) { input.scale = 1; });
  refuses([](ExplainInput& input) { input.score = Score::Kind::dot; });
  refuses([](ExplainInput& input) { input.substitutes["weights"] = matrix(4, 4, std::vector<double>(16)); });
  refuses([](ExplainInput& input) { input.w_out = Tensor(); });
}

}  // namespace
}  // namespace qkv
