// Multi-head attention against plain loops in double, at the sizes of the documents; ragged batches, threads, observer,
// names and refusals.
#include "qkv/layers/multi_head_attention.h"

#include <map>

#include "attention/attention_testing.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using testing::difference;
using testing::normal;
using testing::same_bits;

// Weights of a layer in the packed scheme with all inputs of one size.
std::map<std::string, Tensor> packed_weights(Random& random, std::int64_t model_dim, double spread) {
  return {{"in_proj_weight", normal(random, {3 * model_dim, model_dim}, Dtype::f32, spread)},
          {"in_proj_bias", normal(random, {3 * model_dim}, Dtype::f32, spread)},
          {"out_proj.weight", normal(random, {model_dim, model_dim}, Dtype::f32, spread)},
          {"out_proj.bias", normal(random, {model_dim}, Dtype::f32, spread)}};
}

MultiHeadAttention make(const MultiHeadAttentionConfig& config, std::map<std::string, Tensor> tensors,
                        Dtype dtype = Dtype::f32) {
  Weights weights(std::move(tensors), "test", dtype);
  MultiHeadAttention layer(config, weights);
  weights.expect_empty();
  return layer;
}

// The formula, one number at a time, for x [length, model_dim]: no views, no kernel, no packing.
struct PlainHeads {
  std::int64_t length, dim, heads;
  std::vector<double> x, w, b, out_w, out_b;

  PlainHeads(const std::map<std::string, Tensor>& weights, const TensorView& input, std::int64_t head_count)
      : length(input.size(0)),
        dim(input.size(1)),
        heads(head_count),
        x(testing::values(input)),
        w(testing::values(weights.at("in_proj_weight"))),
        b(testing::values(weights.at("in_proj_bias"))),
        out_w(testing::values(weights.at("out_proj.weight"))),
        out_b(testing::values(weights.at("out_proj.bias"))) {}

  // Number `column` of role `role` (query, key, value) of position i.
  double projected(std::int64_t role, std::int64_t i, std::int64_t column) const {
    const std::int64_t row = role * dim + column;
    double sum = b[static_cast<std::size_t>(row)];
    for (std::int64_t e = 0; e < dim; ++e) {
      sum += w[static_cast<std::size_t>(row * dim + e)] * x[static_cast<std::size_t>(i * dim + e)];
    }
    return sum;
  }

  std::vector<double> output() const {
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    const std::int64_t head_dim = dim / heads;
    std::vector<double> roles[3], merged(at(length * dim)), out(at(length * dim));
    for (std::int64_t role = 0; role < 3; ++role) {
      for (std::int64_t i = 0; i < length * dim; ++i) roles[role].push_back(projected(role, i / dim, i % dim));
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < length; ++i) {
        std::vector<double> weight(at(length));
        double most = -testing::kInfinity, sum = 0;
        for (std::int64_t j = 0; j < length; ++j) {
          double dot = 0;
          for (std::int64_t e = h * head_dim; e < (h + 1) * head_dim; ++e) {
            dot += roles[0][at(i * dim + e)] * roles[1][at(j * dim + e)];
          }
          weight[at(j)] = dot / std::sqrt(static_cast<double>(head_dim));
          most = std::max(most, weight[at(j)]);
        }
        for (double& value : weight) sum += value = std::exp(value - most);
        for (std::int64_t e = h * head_dim; e < (h + 1) * head_dim; ++e) {
          for (std::int64_t j = 0; j < length; ++j) {
            merged[at(i * dim + e)] += weight[at(j)] / sum * roles[2][at(j * dim + e)];
          }
        }
      }
    }
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t c = 0; c < dim; ++c) {
        double sum = out_b[at(c)];
        for (std::int64_t e = 0; e < dim; ++e) sum += out_w[at(c * dim + e)] * merged[at(i * dim + e)];
        out[at(i * dim + c)] = sum;
      }
    }
    return out;
  }
};

// Expects all three schemes to give the plain result, to `tolerance` of its largest number.
void expect_plain(std::int64_t model_dim, std::int64_t heads, std::int64_t length, double spread, double tolerance) {
  Random random(7);
  const auto tensors = packed_weights(random, model_dim, spread);
  const Tensor x = normal(random, {length, model_dim});
  const Tensor expected = Tensor::of({length, model_dim}, PlainHeads(tensors, x, heads).output());
  const MultiHeadAttention layer = make({.model_dim = model_dim, .heads = heads}, tensors);
  for (const HeadScheme scheme : {HeadScheme::packed, HeadScheme::per_head, HeadScheme::two_stage}) {
    EXPECT_LE(difference(layer.with_scheme(scheme).forward(x), expected), tolerance * testing::largest(expected));
  }
}

TEST(MultiHeadAttention, EmbeddingSixQuerySizeThreeTwoHeads) { expect_plain(6, 2, 3, 1, 1e-6); }

TEST(MultiHeadAttention, EmbeddingFiveHundredTwelveEightHeads) { expect_plain(512, 8, 7, 0.04, 1e-5); }

// Weights drawn as randn(512, 512): logits beyond 1000, nearly one-hot rows, and no NaN. The logits' own rounding
// errors, some 1e-7 of a thousand, are the relative errors of the weights.
TEST(MultiHeadAttention, LogitsBeyondAThousand) { expect_plain(512, 8, 7, 1, 2e-3); }

TEST(MultiHeadAttention, TwoStagesFoldIntoOne) {
  Random random(3);
  const std::int64_t heads = 2, head_dim = 3, inner = 6, in = 6;
  std::map<std::string, Tensor> tensors{{"out_proj.weight", normal(random, {inner, inner})},
                                        {"out_proj.bias", normal(random, {inner})}};
  for (const std::string role : {"query", "key", "value"}) {
    tensors[role + ".shared_weight"] = normal(random, {inner, in});
    tensors[role + ".shared_bias"] = normal(random, {inner});
    tensors[role + ".weight"] = normal(random, {heads, head_dim, inner});
    tensors[role + ".bias"] = normal(random, {heads, head_dim});
  }
  const MultiHeadAttention layer =
      make({.model_dim = in, .heads = heads, .scheme = HeadScheme::two_stage}, tensors, Dtype::f64);
  const Tensor x = normal(random, {2, 5, in}, Dtype::f64);
  const Tensor expected = layer.forward(x);
  EXPECT_LE(difference(layer.with_scheme(HeadScheme::per_head).forward(x), expected), 1e-12);
  EXPECT_LE(difference(layer.with_scheme(HeadScheme::packed).forward(x), expected), 1e-12);
}

TEST(MultiHeadAttention, OwnHeadAndOutputSizes) {
  Random random(5);
  const MultiHeadAttentionConfig config{
      .model_dim = 6, .heads = 2, .head_dim = 5, .key_input_dim = 4, .value_input_dim = 7, .out_dim = 3, .bias = false};
  const MultiHeadAttention layer = make(config, {{"q_proj_weight", normal(random, {10, 6})},
                                                 {"k_proj_weight", normal(random, {10, 4})},
                                                 {"v_proj_weight", normal(random, {10, 7})},
                                                 {"out_proj.weight", normal(random, {3, 10})}});
  const Tensor out = layer.forward(normal(random, {2, 3, 6}), normal(random, {2, 4, 4}), normal(random, {2, 4, 7}));
  EXPECT_EQ(out.shape(), (Dims{2, 3, 3}));
}

class RaggedHeads : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ExtraKeys, RaggedHeads, ::testing::Bool());

// Each sequence has the bits that it has alone, weights included; lengths 0 and 1 are among them.
TEST_P(RaggedHeads, EachSequenceIsAsAlone) {
  Random random(11);
  auto tensors = packed_weights(random, 12, 0.5);
  if (GetParam()) {
    tensors["bias_k"] = normal(random, {1, 1, 12});
    tensors["bias_v"] = normal(random, {1, 1, 12});
  }
  const MultiHeadAttention layer =
      make({.model_dim = 12, .heads = 3, .bias_kv = GetParam(), .zero_attention = GetParam()}, tensors);
  const std::int64_t extra = GetParam() ? 2 : 0;
  const std::vector<std::int64_t> q_lengths{3, 0, 1, 8, 5}, k_lengths{4, 2, 0, 7, 5};
  const Tensor q_offsets = offsets_of(q_lengths), k_offsets = offsets_of(k_lengths);
  const Tensor query = normal(random, {17, 12}), memory = normal(random, {18, 12});
  Tensor weights = Tensor::zeros({17, 3, 7 + extra}), mean = Tensor::zeros({17, 7 + extra});
  const MultiHeadAttentionOptions options{
      .mask = Mask::causal(Align::bottom_right), .weights = weights, .mean_weights = mean};
  const Tensor out = layer.forward({query, q_offsets}, {memory, k_offsets}, options);
  std::int64_t q_begin = 0, k_begin = 0;
  for (std::size_t b = 0; b < q_lengths.size(); ++b) {
    const std::int64_t q_end = q_begin + q_lengths[b], k_end = k_begin + k_lengths[b];
    Tensor own = Tensor::zeros({3, q_lengths[b], k_lengths[b] + extra});
    Tensor own_mean = Tensor::zeros({q_lengths[b], k_lengths[b] + extra});
    const Tensor alone = layer.forward(query.view().slice(0, q_begin, q_end), memory.view().slice(0, k_begin, k_end),
                                       {.mask = options.mask, .weights = own, .mean_weights = own_mean});
    EXPECT_TRUE(same_bits(out.view().slice(0, q_begin, q_end), alone));
    const auto columns = [&](const TensorView& view, std::int64_t first, std::int64_t count) {
      return view.slice(view.rank() - 1, first, first + count);
    };
    const TensorView mine = std::as_const(weights).view().slice(0, q_begin, q_end);
    const TensorView mine_mean = std::as_const(mean).view().slice(0, q_begin, q_end);
    const TensorView theirs = std::as_const(own).view().transpose(0, 1), theirs_mean = std::as_const(own_mean).view();
    for (const auto& [first, theirs_first, count] : {std::array{std::int64_t{0}, std::int64_t{0}, k_lengths[b]},
                                                     std::array{std::int64_t{7}, k_lengths[b], extra}}) {
      EXPECT_TRUE(same_bits(columns(mine, first, count), columns(theirs, theirs_first, count)));
      EXPECT_TRUE(same_bits(columns(mine_mean, first, count), columns(theirs_mean, theirs_first, count)));
    }
    q_begin = q_end;
    k_begin = k_end;
  }
}

TEST(MultiHeadAttention, ThreadsChangeNothing) {
  Random random(13);
  const MultiHeadAttention layer = make({.model_dim = 48, .heads = 4}, packed_weights(random, 48, 0.3));
  const Tensor x = normal(random, {3, 70, 48});
  const Tensor one = layer.forward(x, {.threads = 1});
  for (const int threads : {2, 3, 8}) EXPECT_TRUE(same_bits(layer.forward(x, {.threads = threads}), one));
}

struct Notes : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    order.emplace_back(name);
    values[order.back()] = Tensor::copy(value);
  }
  std::vector<std::string> order;
  std::map<std::string, Tensor> values;
};

TEST(MultiHeadAttention, ObserverSeesTheSteps) {
  Random random(17);
  const MultiHeadAttention layer = make({.model_dim = 6, .heads = 2}, packed_weights(random, 6, 0.5));
  const Tensor x = normal(random, {2, 4, 6});
  Notes notes;
  const Tensor out = layer.forward(x, {.mask = Mask::causal()}, &notes);
  EXPECT_TRUE(same_bits(out, layer.forward(x, {.mask = Mask::causal()})));
  EXPECT_EQ(notes.order, (std::vector<std::string>{"out_weight", "query", "key", "value", "logits", "weights", "heads",
                                                   "merged", "output"}));
  layer.visit([&](const std::string& name, const Parameter& own) {
    if (name == "out_proj.weight") {
      EXPECT_TRUE(same_bits(notes.values["out_weight"], own.value));
    }
  });
  EXPECT_EQ(notes.values["query"].shape(), (Dims{2, 2, 4, 3}));
  EXPECT_EQ(notes.values["weights"].shape(), (Dims{2, 2, 4, 4}));
  EXPECT_EQ(notes.values["merged"].shape(), (Dims{2, 4, 6}));
  EXPECT_TRUE(same_bits(notes.values["output"], out));
  // The merged rows are the heads' outputs side by side.
  const Tensor heads = Tensor::copy(notes.values["heads"].view().transpose(1, 2));
  EXPECT_TRUE(same_bits(heads.view().reshape({2, 4, 6}), notes.values["merged"]));
  EXPECT_EQ(notes.values["logits"].view().at<float>({1, 0, 0, 1}), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(notes.values["weights"].view().at<float>({1, 0, 0, 0}), 1.0f);
}

std::vector<std::string> names_of(const MultiHeadAttention& layer) {
  std::vector<std::string> names;
  const auto note = [&](const std::string& name, const Parameter& own) {
    names.push_back(name + to_string(own.value.shape()));
  };
  layer.visit(note, "self_attn.");
  return names;
}

TEST(MultiHeadAttention, ListsItsParametersAsTorchDoes) {
  Random random(19);
  auto tensors = packed_weights(random, 6, 1);
  tensors["bias_k"] = tensors["bias_v"] = normal(random, {1, 1, 6});
  const MultiHeadAttention layer = make({.model_dim = 6, .heads = 2, .bias_kv = true}, tensors);
  EXPECT_EQ(names_of(layer),
            (std::vector<std::string>{"self_attn.in_proj_weight[18, 6]", "self_attn.in_proj_bias[18]",
                                      "self_attn.bias_k[1, 1, 6]", "self_attn.bias_v[1, 1, 6]",
                                      "self_attn.out_proj.weight[6, 6]", "self_attn.out_proj.bias[6]"}));
  EXPECT_EQ(names_of(layer.with_scheme(HeadScheme::per_head)),
            (std::vector<std::string>{"self_attn.query.weight[2, 3, 6]", "self_attn.query.bias[2, 3]",
                                      "self_attn.key.weight[2, 3, 6]", "self_attn.key.bias[2, 3]",
                                      "self_attn.value.weight[2, 3, 6]", "self_attn.value.bias[2, 3]",
                                      "self_attn.bias_k[1, 1, 6]", "self_attn.bias_v[1, 1, 6]",
                                      "self_attn.out_proj.weight[6, 6]", "self_attn.out_proj.bias[6]"}));
  // There and back again changes no bit.
  const MultiHeadAttention back = layer.with_scheme(HeadScheme::per_head).with_scheme(HeadScheme::packed);
  EXPECT_EQ(names_of(back), names_of(layer));
  back.visit(
      [&](const std::string& name, const Parameter& own) { EXPECT_TRUE(same_bits(own.value, tensors.at(name))); });
}

template <class Error, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MultiHeadAttention, RefusesWhatDoesNotFit) {
  Random random(23);
  const auto tensors = packed_weights(random, 6, 1);
  const auto construct = [&](const MultiHeadAttentionConfig& config, std::map<std::string, Tensor> given) {
    return [=] { make(config, given); };
  };
  using Invalid = std::invalid_argument;
  EXPECT_EQ(message_of<Invalid>(construct({.model_dim = 6, .heads = 4}, tensors)),
            "multi_head_attention: model_dim 6 is not divisible by 4 heads");
  EXPECT_EQ(message_of<Invalid>(construct({.model_dim = std::int64_t{1} << 31, .heads = 1}, tensors)),
            "multi_head_attention: model_dim is 2147483648; it must be 1 to 1048576");
  EXPECT_EQ(message_of<Invalid>(construct({.model_dim = 6, .heads = 0}, tensors)),
            "multi_head_attention: heads is 0; it must be 1 to 1048576");
  EXPECT_EQ(message_of<FormatError>(construct({.model_dim = 8, .heads = 2}, tensors)),
            "test: tensor \"out_proj.weight\" is [6, 6]; it must be [8, 8]");
  auto missing = tensors;
  missing.erase("in_proj_bias");
  EXPECT_EQ(message_of<FormatError>(construct({.model_dim = 6, .heads = 2}, missing)),
            "test: tensor \"in_proj_bias\" [18] is missing");
  auto more = tensors;
  more["bias_k"] = Tensor::zeros({1, 1, 6});
  EXPECT_EQ(message_of<FormatError>(construct({.model_dim = 6, .heads = 2}, more)),
            "test: tensor \"bias_k\" is not part of this model");

  const MultiHeadAttention layer = make({.model_dim = 6, .heads = 2}, tensors);
  const Tensor x = normal(random, {2, 4, 6});
  EXPECT_EQ(message_of<Invalid>([&] { layer.forward(normal(random, {2, 4, 5})); }),
            "multi_head_attention: query: the input is [2, 4, 5]; it must be [..., 6]");
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{4, 4});
  const Tensor rows = Tensor::copy(x.view().reshape({8, 6}));
  EXPECT_EQ(message_of<Invalid>([&] { layer.forward({rows, offsets}, x); }),
            "multi_head_attention: queries, keys and values must be all padded or all ragged");
  Tensor place = Tensor::zeros({2, 2, 4, 3});
  EXPECT_EQ(message_of<Invalid>([&] { layer.forward(x, {.weights = place}); }),
            "multi_head_attention: weights is [2, 2, 4, 3]; it must be [2, 2, 4, 4]");
  Tensor square = Tensor::zeros({2, 4, 4});
  EXPECT_EQ(message_of<Invalid>([&] { layer.forward(x, {.mean_weights = square.view().transpose(1, 2)}); }),
            "multi_head_attention: mean_weights must have a last stride of 1");
}

}  // namespace
}  // namespace qkv
