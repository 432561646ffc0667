// Multi-head attention against plain loops in double, at the sizes of the documents; ragged batches with weights,
// observer, names and schemes, refusals.
#include "qkv/layers/multi_head_attention.h"

#include "io/files_for_test.h"
#include "layers/asked_layer.h"
#include "layers/stack/layer_reference.h"

namespace qkv::testing {
namespace {

// Expects all three schemes to give the plain result, to `tolerance` of its largest number.
void expect_plain(std::int64_t dim, std::int64_t heads, std::int64_t length, double spread, double tolerance) {
  Random random(7);
  const Tensors tensors{{"in_proj_weight", normal(random, {3 * dim, dim}, Dtype::f32, spread)},
                        {"in_proj_bias", normal(random, {3 * dim}, Dtype::f32, spread)},
                        {"out_proj.weight", normal(random, {dim, dim}, Dtype::f32, spread)},
                        {"out_proj.bias", normal(random, {dim}, Dtype::f32, spread)}};
  const Tensor x = normal(random, {length, dim});
  Tensors wide;
  for (const auto& [name, tensor] : tensors) wide[name] = convert(tensor, Dtype::f64);
  const TransformerLayerConfig config{.model_dim = dim, .heads = heads};
  const Tensor expected = from_rows(ReferenceLayer(config, wide).heads(to_rows(convert(x, Dtype::f64))));
  Weights weights(tensors);
  const MultiHeadAttention layer({.model_dim = dim, .heads = heads}, weights);
  for (const HeadScheme scheme : {HeadScheme::packed, HeadScheme::per_head, HeadScheme::two_stage}) {
    EXPECT_LE(difference(layer.with_scheme(scheme).forward(x), expected), tolerance * largest(expected));
  }
}

TEST(MultiHeadAttention, IsTheFormula) {
  expect_plain(6, 2, 3, 1, 1e-6);
  expect_plain(512, 8, 7, 0.04, 1e-5);
  // Weights drawn as randn(512, 512): logits beyond 1000, nearly one-hot rows, and no NaN. The logits' own rounding
  // errors, some 1e-7 of a thousand, are the relative errors of the weights.
  expect_plain(512, 8, 7, 1, 2e-3);
}

TEST(MultiHeadAttention, EverySchemeIsTheSame) {
  Drawn drawn;
  const MultiHeadAttention layer(grouped_heads(), drawn.weights);
  Random random(3);
  const Tensor x = normal(random, {2, 5, 6}, Dtype::f64), memory = normal(random, {2, 4, 6}, Dtype::f64);
  const Tensor expected = layer.forward(x, memory);
  for (const HeadScheme scheme : {HeadScheme::per_head, HeadScheme::two_stage}) {
    const MultiHeadAttention other = layer.with_scheme(scheme);
    EXPECT_LE(difference(other.forward(x, memory), expected), 1e-13);
    EXPECT_LE(difference(other.with_scheme(HeadScheme::packed).forward(x, memory), expected), 1e-13);
  }
}

// Each sequence has the bits that it has alone, weights included; lengths 0 and 1 are among them.
TEST(MultiHeadAttention, RaggedSequencesHaveTheirOwnWeights) {
  for (const bool has_extra : {false, true}) {
    Drawn drawn(Dtype::f32);
    const MultiHeadAttention layer({.model_dim = 12, .heads = 3, .bias_kv = has_extra, .zero_attention = has_extra},
                                   drawn.weights);
    const std::int64_t extra = has_extra ? 2 : 0;
    const std::vector<std::int64_t> q_lengths{3, 0, 1, 8, 5}, k_lengths{4, 2, 0, 7, 5};
    const Tensor q_offsets = offsets_of(q_lengths), k_offsets = offsets_of(k_lengths);
    Random random(11);
    const Tensor query = normal(random, {17, 12}), memory = normal(random, {18, 12});
    Tensor weights = Tensor::zeros({17, 3, 7 + extra}), mean = Tensor::zeros({17, 7 + extra});
    MultiHeadAttentionOptions options{
        .mask = Mask::causal(Align::bottom_right), .weights = weights, .mean_weights = mean};
    const Tensor out = layer.forward({query, q_offsets}, {memory, k_offsets}, options);
    std::int64_t q_begin = 0, k_begin = 0;
    for (std::size_t b = 0; b < q_lengths.size(); ++b) {
      const std::int64_t q_end = q_begin + q_lengths[b], k_end = k_begin + k_lengths[b];
      Tensor own = Tensor::zeros({3, q_lengths[b], k_lengths[b] + extra});
      Tensor own_mean = Tensor::zeros({q_lengths[b], k_lengths[b] + extra});
      options.weights = own;
      options.mean_weights = own_mean;
      const Tensor alone =
          layer.forward(query.view().slice(0, q_begin, q_end), memory.view().slice(0, k_begin, k_end), options);
      EXPECT_TRUE(same_bits(out.view().slice(0, q_begin, q_end), alone));
      // Extra keys are behind the longest; a single query beside some is computed otherwise than several.
      const double bound = has_extra && q_lengths[b] == 1 ? 0x1p-22 : 0;
      const auto expect_same = [&](const TensorView& given, const TensorView& wanted) {
        const std::int64_t count = k_lengths[b];
        const int last = given.rank() - 1;
        EXPECT_LE(difference(given.slice(last, 0, count), wanted.slice(last, 0, count)), bound);
        EXPECT_LE(difference(given.slice(last, 7, 7 + extra), wanted.slice(last, count, count + extra)), bound);
      };
      expect_same(weights.view().slice(0, q_begin, q_end), own.view().transpose(0, 1));
      expect_same(mean.view().slice(0, q_begin, q_end), own_mean);
      q_begin = q_end;
      k_begin = k_end;
    }
  }
}

struct Notes : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    order.emplace_back(name);
    values[order.back()] = Tensor::copy(value);
  }
  std::vector<std::string> order;
  Tensors values;
};

TEST(MultiHeadAttention, ObserverSeesTheSteps) {
  Drawn drawn(Dtype::f32);
  const MultiHeadAttention layer({.model_dim = 6, .heads = 2}, drawn.weights);
  Random random(17);
  const Tensor x = normal(random, {2, 4, 6});
  Notes notes;
  const Tensor out = layer.forward(x, {.mask = Mask::causal()}, &notes);
  EXPECT_TRUE(same_bits(out, layer.forward(x, {.mask = Mask::causal()})));
  EXPECT_EQ(notes.order, (std::vector<std::string>{"out_weight", "query", "key", "value", "logits", "weights", "heads",
                                                   "merged", "output"}));
  EXPECT_TRUE(same_bits(notes.values["out_weight"], drawn.tensors.at("out_proj.weight")));
  EXPECT_EQ(notes.values["query"].shape(), (Dims{2, 2, 4, 3}));
  EXPECT_EQ(notes.values["weights"].shape(), (Dims{2, 2, 4, 4}));
  EXPECT_TRUE(same_bits(notes.values["output"], out));
  // The merged rows are the heads' outputs side by side.
  const Tensor heads = Tensor::copy(notes.values["heads"].view().transpose(1, 2));
  EXPECT_TRUE(same_bits(heads.view().reshape({2, 4, 6}), notes.values["merged"]));
  EXPECT_EQ(notes.values["logits"].view().at<float>({1, 0, 0, 1}), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(notes.values["weights"].view().at<float>({1, 0, 0, 0}), 1.0f);
}

std::string names_of(const MultiHeadAttention& layer) {
  std::string names;
  layer.visit(
      [&](const std::string& name, const Parameter& own) { names += name + to_string(own.value.shape()) + " "; }, "a.");
  return names;
}

TEST(MultiHeadAttention, ListsItsParametersAsTorchDoes) {
  const std::string extra = "a.bias_k[1, 1, 6] a.bias_v[1, 1, 6] ";
  Drawn drawn;
  const MultiHeadAttention layer({.model_dim = 6, .heads = 2, .bias_kv = true}, drawn.weights);
  EXPECT_EQ(names_of(layer),
            "a.in_proj_weight[18, 6] a.in_proj_bias[18] " + extra + "a.out_proj.weight[6, 6] a.out_proj.bias[6] ");
  EXPECT_EQ(names_of(layer.with_scheme(HeadScheme::per_head)),
            "a.query.weight[2, 3, 6] a.query.bias[2, 3] a.key.weight[2, 3, 6] a.key.bias[2, 3] a.value.weight[2, 3, 6] "
            "a.value.bias[2, 3] " +
                extra + "a.out_proj.weight[6, 6] a.out_proj.bias[6] ");
  // There and back again changes no bit.
  layer.with_scheme(HeadScheme::per_head)
      .with_scheme(HeadScheme::packed)
      .visit([&](const std::string& name, const Parameter& own) {
        EXPECT_TRUE(same_bits(own.value, drawn.tensors.at(name))) << name;
      });
  // Sizes of its own, without bias; and fewer heads of keys and values, whose keys alone have no bias.
  Drawn other, grouped;
  const MultiHeadAttention sized({.model_dim = 6,
                                  .heads = 2,
                                  .head_dim = 5,
                                  .key_input_dim = 4,
                                  .value_input_dim = 7,
                                  .out_dim = 3,
                                  .bias = false},
                                 other.weights);
  EXPECT_EQ(names_of(sized),
            "a.q_proj_weight[10, 6] a.k_proj_weight[10, 4] a.v_proj_weight[10, 7] a.out_proj.weight[3, 10] ");
  const MultiHeadAttention few(grouped_heads(), grouped.weights);
  EXPECT_EQ(names_of(few), "a.in_proj_weight[24, 6] a.in_proj_bias[18] " + extra + "a.out_proj.weight[6, 12] ");
  EXPECT_EQ(names_of(few.with_scheme(HeadScheme::two_stage)),
            "a.query.shared_weight[12, 6] a.query.shared_bias[12] a.query.weight[4, 3, 12] a.query.bias[4, 3] "
            "a.key.shared_weight[6, 6] a.key.weight[2, 3, 6] a.value.shared_weight[6, 6] a.value.shared_bias[6] "
            "a.value.weight[2, 3, 6] a.value.bias[2, 3] " +
                extra + "a.out_proj.weight[6, 12] ");
}

TEST(MultiHeadAttention, RefusesWhatDoesNotFit) {
  Drawn drawn(Dtype::f32);
  MultiHeadAttentionConfig config{.model_dim = 6, .heads = 2};
  const MultiHeadAttention layer(config, drawn.weights);
  const auto construct = [](const MultiHeadAttentionConfig& of, const Tensors& given) {
    Weights weights(given, "test");
    MultiHeadAttention made(of, weights);
    weights.expect_empty();
  };
  for (const auto& [of, message] : std::vector<std::pair<MultiHeadAttentionConfig, std::string>>{
           {{.model_dim = 6, .heads = 4}, "model_dim 6 is not divisible by 4 heads"},
           {{.model_dim = std::int64_t{1} << 31}, "model_dim is 2147483648; it must be 1 to 1048576"},
           {{.model_dim = 6, .heads = 0}, "heads is 0; it must be 1 to 1048576"}}) {
    EXPECT_EQ(test::message_of<std::invalid_argument>([&] { construct(of, drawn.tensors); }),
              "multi_head_attention: " + message);
  }
  Tensors missing = drawn.tensors, more = drawn.tensors;
  missing.erase("in_proj_bias");
  more["bias_k"] = Tensor::zeros({1, 1, 6});
  for (const auto& [dim, given, message] : std::vector<std::tuple<std::int64_t, Tensors, std::string>>{
           {8, drawn.tensors, "\"out_proj.weight\" is [6, 6]; it must be [8, 8]"},
           {6, missing, "\"in_proj_bias\" [18] is missing"},
           {6, more, "\"bias_k\" is not part of this model"}}) {
    config.model_dim = dim;
    EXPECT_EQ(test::message_of<FormatError>([&] { construct(config, given); }), "test: tensor " + message);
  }
  const auto refusal = [&](const auto& call) { return test::message_of<std::invalid_argument>(call); };
  const Tensor x = Tensor::zeros({2, 4, 6}), narrow = Tensor::zeros({2, 4, 5}), rows = Tensor::zeros({8, 6});
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{4, 4});
  Tensor place = Tensor::zeros({2, 2, 4, 3}), square = Tensor::zeros({2, 4, 4});
  EXPECT_EQ(refusal([&] { layer.forward(narrow); }),
            "multi_head_attention: query: the input is [2, 4, 5]; it must be [..., 6]");
  EXPECT_EQ(refusal([&] { layer.forward({rows, offsets}, x); }),
            "multi_head_attention: queries, keys and values must be all padded or all ragged");
  EXPECT_EQ(refusal([&] { layer.forward(x, {.weights = place}); }),
            "multi_head_attention: weights is [2, 2, 4, 3]; it must be [2, 2, 4, 4]");
  EXPECT_EQ(refusal([&] { layer.forward(x, {.mean_weights = square.view().transpose(1, 2)}); }),
            "multi_head_attention: mean_weights must have a last stride of 1");
}

}  // namespace
}  // namespace qkv::testing
