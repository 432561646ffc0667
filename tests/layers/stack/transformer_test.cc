// Parity with torch.nn.Transformer (tests/golden/transformer): outputs, gradients, ten losses of training; weights to
// start from; stopping.
#include "qkv/layers/transformer.h"

#include "jacobian.h"
#include "layers/golden_file.h"
#include "qkv/error.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/positions.h"

namespace qkv::testing {
namespace {

const GoldenFile& golden() {
  static const GoldenFile file("transformer");
  return file;
}

TransformerConfig transformer_config(NormOrder order, Activation activation) {
  return {.layer = {.model_dim = 8, .heads = 2, .ff_dim = 12, .activation = activation, .norm_order = order},
          .encoder_layers = 2,
          .decoder_layers = 2};
}

TEST(Transformer, AgreesWithTorch) {
  for (const auto& [name, config] :
       {std::pair<std::string, TransformerConfig>("pre", transformer_config(NormOrder::pre, Activation::gelu)),
        {"post", transformer_config(NormOrder::post, Activation::relu)}}) {
    SCOPED_TRACE(name);
    const auto get = [&](const std::string& what, Dtype dtype) { return golden().get(name + what, dtype); };
    const Tensor& lengths = golden().at(name + ".source_lengths");
    const TransformerOptions options{.source_mask = Mask::lengths(lengths), .memory_mask = Mask::lengths(lengths)};
    const auto narrow = golden().make<Transformer>(config, name + ".weights.", Dtype::f32);
    golden().expect_as_exact(narrow.forward(get(".source", Dtype::f32), get(".target", Dtype::f32), options), name);

    auto model = golden().make<Transformer>(config, name + ".weights.", Dtype::f64);
    want_gradients(model);
    const Tensor source = get(".source", Dtype::f64), target = get(".target", Dtype::f64);
    const Tensor& exact = golden().at(name + ".out_f64");
    TransformerSaved saved;
    EXPECT_LE(difference(model.forward(source, target, options), exact), 1e-12);
    EXPECT_LE(difference(model.forward(source, target, options, {}, saved), exact), 1e-12);
    const TransformerGradients inputs =
        model.backward(source, target, options, {}, saved, get(".grad_out", Dtype::f64));
    const auto expect_close = [&](const std::string& what, const Tensor& gradient) {
      const Tensor& wanted = golden().at(name + ".gradients." + what);
      EXPECT_LE(difference(gradient, wanted), 1e-11 * std::max(1.0, largest(wanted))) << what;
    };
    expect_close("source", inputs.source);
    expect_close("target", inputs.target);
    model.visit([&](const std::string& what, const Parameter& own) { expect_close(what, own.gradient); });
  }
}

// Embeddings of one table on both sides and for the output, sinusoids, pre-norm, label smoothing, gradient descent.
TEST(Transformer, TrainsAsTorchDoes) {
  Weights weights(golden().under("training.weights.", Dtype::f32));
  Transformer model(transformer_config(NormOrder::pre, Activation::relu), weights);
  Weights table({{"weight", golden().at("training.weights.shared")}});
  Embedding shared({.count = 11, .dim = 8}, table);
  want_gradients(model);
  want_gradients(shared);

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

// Wherever it is in the middle of: every_layer_test; here by a token of the options.
TEST(Transformer, StopsByATokenOfItsOptions) {
  Weights weights = initial_weights(5);
  Transformer model(transformer_config(NormOrder::pre, Activation::relu), weights);
  const Tensor x = filled({2, 3, 8}, 0.5);
  TransformerSaved saved;
  const Tensor out = model.forward(x, x, {}, {}, saved);
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(model.forward(x, x, {.stop = source.get_token()}), Stopped);
  EXPECT_THROW(model.backward(x, x, {.stop = source.get_token()}, {}, saved, out), Stopped);
}

// The same for the same seed; within the bounds of torch's own, and near them.
TEST(Transformer, WeightsToStartFrom) {
  const auto drawn = [](std::uint64_t seed) {
    Weights weights = initial_weights(seed);
    const TransformerConfig config{
        .layer = {.model_dim = 32, .heads = 4, .ff_dim = 64}, .encoder_layers = 1, .decoder_layers = 1};
    std::map<std::string, std::vector<double>> all;
    Transformer(config, weights).visit([&](const std::string& name, const Parameter& own) {
      all[name] = values(own.value);
    });
    return all;
  };
  auto all = drawn(5);
  EXPECT_EQ(all, drawn(5));
  EXPECT_NE(all.at("encoder.layers.0.linear1.weight"), drawn(6).at("encoder.layers.0.linear1.weight"));
  for (const auto& [name, bound] :
       std::map<std::string, double>{{"encoder.layers.0.self_attn.in_proj_weight", std::sqrt(6.0 / 128)},
                                     {"decoder.layers.0.multihead_attn.out_proj.weight", std::sqrt(6.0 / 64)},
                                     {"encoder.layers.0.linear1.weight", std::sqrt(6.0 / 96)},
                                     {"encoder.layers.0.linear2.bias", 1 / 8.0}}) {
    double most = 0;
    for (const double value : all.at(name)) most = std::max(most, std::abs(value));
    EXPECT_LE(most, bound) << name;
    EXPECT_GE(most, 0.9 * bound) << name;
  }
  EXPECT_EQ(all["encoder.layers.0.self_attn.in_proj_bias"], std::vector<double>(96, 0));
  EXPECT_EQ(all["decoder.norm.bias"], std::vector<double>(32, 0));
  EXPECT_EQ(all["decoder.norm.weight"], std::vector<double>(32, 1));
}

}  // namespace
}  // namespace qkv::testing
