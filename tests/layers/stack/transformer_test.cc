// Parity with torch.nn.Transformer: golden/transformer/transformer.safetensors, made by make.py beside it: outputs,
// gradients, ten losses of training. Ragged batches; dropout on any threads; weights to start from.
#include "qkv/layers/transformer.h"

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/files.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/positions.h"

namespace qkv {
namespace {

const std::map<std::string, Tensor>& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/transformer/transformer.safetensors");
  return file.tensors;
}

Weights weights_of(const std::string& name, Dtype dtype) {
  std::map<std::string, Tensor> tensors;
  const std::string prefix = name + ".weights.";
  for (const auto& [key, tensor] : golden()) {
    if (key.starts_with(prefix)) tensors[key.substr(prefix.size())] = tensor;
  }
  return Weights(std::move(tensors), name, dtype);
}

TransformerConfig config_of(NormOrder order, Activation activation) {
  return {.layer = {.model_dim = 8, .heads = 2, .ff_dim = 12, .activation = activation, .norm_order = order},
          .encoder_layers = 2,
          .decoder_layers = 2};
}

TransformerConfig config_of(const std::string& name) {
  return name == "pre" ? config_of(NormOrder::pre, Activation::gelu) : config_of(NormOrder::post, Activation::relu);
}

TEST(Transformer, AgreesWithTorch) {
  for (const std::string name : {"pre", "post"}) {
    SCOPED_TRACE(name);
    const Tensor& exact = golden().at(name + ".out_f64");
    const TransformerOptions options{.source_mask = Mask::lengths(golden().at(name + ".source_lengths")),
                                     .memory_mask = Mask::lengths(golden().at(name + ".source_lengths"))};
    Weights weights = weights_of(name, Dtype::f64), narrow_weights = weights_of(name, Dtype::f32);
    Transformer model(config_of(name), weights);
    weights.expect_empty();
    testing::want_gradients(model);
    const Tensor source = convert(golden().at(name + ".source"), Dtype::f64);
    const Tensor target = convert(golden().at(name + ".target"), Dtype::f64);
    EXPECT_LE(testing::difference(model.forward(source, target, options), exact), 1e-12);
    // At most twice as far as torch's own float32, above a floor of a few roundings.
    const Transformer narrow(config_of(name), narrow_weights);
    const Tensor out = narrow.forward(golden().at(name + ".source"), golden().at(name + ".target"), options);
    EXPECT_LE(testing::difference(out, exact),
              2 * testing::difference(golden().at(name + ".out"), exact) + 5e-7 * testing::largest(exact));

    TransformerSaved saved;
    EXPECT_LE(testing::difference(model.forward(source, target, options, {}, saved), exact), 1e-12);
    const TransformerGradients inputs =
        model.backward(source, target, options, {}, saved, convert(golden().at(name + ".grad_out"), Dtype::f64));
    const auto expect_close = [&](const std::string& what, const Tensor& gradient) {
      const Tensor& wanted = golden().at(name + ".gradients." + what);
      EXPECT_LE(testing::difference(gradient, wanted), 1e-11 * std::max(1.0, testing::largest(wanted))) << what;
    };
    expect_close("source", inputs.source);
    expect_close("target", inputs.target);
    model.visit([&](const std::string& what, const Parameter& own) { expect_close(what, own.gradient); });
  }
}

// Embeddings of one table on both sides and for the output, sinusoids, pre-norm, label smoothing, gradient descent.
TEST(Transformer, TrainsAsTorchDoes) {
  Weights weights = weights_of("training", Dtype::f32);
  Transformer model(config_of(NormOrder::pre, Activation::relu), weights);
  Weights table({{"weight", golden().at("training.weights.shared")}});
  Embedding shared({.count = 11, .dim = 8}, table);
  testing::want_gradients(model);
  testing::want_gradients(shared);

  const auto ids = [&](const std::string& name, std::int64_t begin, std::int64_t end) {
    const Tensor& all = golden().at("training." + name);
    std::vector<std::int32_t> list;
    for (std::int64_t b = 0; b < all.size(0); ++b) {
      for (std::int64_t i = begin; i < end; ++i) list.push_back(all.view().at<std::int32_t>({b, i}));
    }
    return list;
  };
  const std::vector<std::int32_t> source = ids("source", 0, 6), target = ids("target", 0, 4),
                                  next = ids("target", 1, 5);
  const Tensor source_offsets = offsets_of(std::vector<std::int64_t>{6, 6, 6});
  const Tensor target_offsets = offsets_of(std::vector<std::int64_t>{4, 4, 4});
  const Tensor positions = sinusoids(6, 8, SinusoidOrder::in_turns);
  const float scale = std::sqrt(8.0f);
  const auto scaled = [&](Tensor x) {
    for (std::int64_t i = 0; i < x.element_count(); ++i) x.data<float>()[i] *= scale;
    return x;
  };
  const auto embed = [&](const std::vector<std::int32_t>& of, const Tensor& offsets) {
    Tensor x = scaled(shared.forward(of));
    add_positions(positions, positions_of(offsets, 6), x);
    return x;
  };
  const auto step = [](const std::string&, Parameter& own) {
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
      own.value.data<float>()[i] -= 0.1f * own.gradient.data<float>()[i];
    }
    own.want_gradient();
  };
  for (int turn = 0; turn < 10; ++turn) {
    const Tensor x = embed(source, source_offsets), y = embed(target, target_offsets);
    TransformerSaved saved;
    const Tensor out = model.forward({x, source_offsets}, {y, target_offsets}, {}, {}, saved);
    Tensor grad_out = Tensor::zeros(out.shape());
    const CrossEntropy sum = cross_entropy(
        {.weight = shared.weight().value}, out, next, {.smoothing = 0.1},
        {.hidden = grad_out, .weight = shared.weight().gradient, .scale = 1.0 / static_cast<double>(next.size())});
    const TransformerGradients inputs =
        model.backward({x, source_offsets}, {y, target_offsets}, {}, {}, saved, grad_out);
    shared.backward(source, scaled(inputs.source));
    shared.backward(target, scaled(inputs.target));
    EXPECT_NEAR(sum.loss / static_cast<double>(sum.targets), golden().at("training.losses").data<float>()[turn], 1e-4)
        << "step " << turn;
    model.update(step);
    shared.update(step);
  }
}

TEST(Transformer, DropoutIsTheSameOnAnyThreads) {
  const TransformerConfig config{.layer = {.model_dim = 16, .heads = 4, .ff_dim = 20},
                                 .encoder_layers = 2,
                                 .decoder_layers = 1,
                                 .final_norms = false};
  Random random(1);
  const Tensor source = testing::normal(random, {300, 16}), target = testing::normal(random, {200, 16});
  const Tensor source_offsets = offsets_of(std::vector<std::int64_t>{100, 199, 1});
  const Tensor target_offsets = offsets_of(std::vector<std::int64_t>{1, 0, 199});
  std::map<std::string, Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    Weights weights = initial_weights(3);
    Transformer model(config, weights);
    testing::want_gradients(model);
    const TransformerOptions options{.threads = threads};
    TransformerSaved saved;
    std::map<std::string, Tensor> results;
    results["out"] =
        model.forward({source, source_offsets}, {target, target_offsets}, options, {.p = 0.2, .seed = 4}, saved);
    const TransformerGradients inputs = model.backward({source, source_offsets}, {target, target_offsets}, options,
                                                       {.p = 0.2, .seed = 4}, saved, results["out"]);
    results["source"] = inputs.source;
    model.visit([&](const std::string& name, const Parameter& own) { results[name] = own.gradient; });
    if (first.empty()) {
      first = results;
      EXPECT_GT(testing::difference(results["out"], model.forward({source, source_offsets}, {target, target_offsets})),
                0.1);
    }
    for (const auto& [name, tensor] : results) {
      EXPECT_TRUE(testing::same_bits(tensor, first.at(name))) << name << ", " << threads << " threads";
    }
  }
}

TEST(Transformer, WeightsToStartFrom) {
  Weights weights = initial_weights(5), same = initial_weights(5), other = initial_weights(6);
  const TransformerConfig config{
      .layer = {.model_dim = 32, .heads = 4, .ff_dim = 64}, .encoder_layers = 1, .decoder_layers = 1};
  const Transformer model(config, weights), twin(config, same), stranger(config, other);
  std::map<std::string, Tensor> values, twins;
  model.visit([&](const std::string& name, const Parameter& own) { values[name] = own.value; });
  twin.visit([&](const std::string& name, const Parameter& own) { twins[name] = own.value; });
  for (const auto& [name, value] : values) EXPECT_TRUE(testing::same_bits(value, twins.at(name))) << name;
  stranger.visit([&](const std::string& name, const Parameter& own) {
    if (name == "encoder.layers.0.linear1.weight") {
      EXPECT_GT(testing::difference(own.value, values.at(name)), 0.01);
    }
  });
  // Within the bounds of torch's own, and near them.
  const auto expect_bound = [&](const std::string& name, double bound) {
    EXPECT_LE(testing::largest(values.at(name)), bound) << name;
    EXPECT_GE(testing::largest(values.at(name)), 0.9 * bound) << name;
  };
  expect_bound("encoder.layers.0.self_attn.in_proj_weight", std::sqrt(6.0 / 128));
  expect_bound("decoder.layers.0.multihead_attn.out_proj.weight", std::sqrt(6.0 / 64));
  expect_bound("encoder.layers.0.linear1.weight", std::sqrt(6.0 / 96));
  expect_bound("encoder.layers.0.linear2.bias", 1 / 8.0);
  EXPECT_EQ(testing::largest(values.at("encoder.layers.0.self_attn.in_proj_bias")), 0.0);
  EXPECT_EQ(testing::largest(values.at("decoder.norm.bias")), 0.0);
  EXPECT_EQ(testing::difference(values.at("decoder.norm.weight"), testing::filled({32}, 1)), 0.0);
}

}  // namespace
}  // namespace qkv
