// Results have the same bits on every target with fused multiply-add, and the digests of digests.txt; those without
// have the same bits, too, but for sums over queries. docs/arithmetic.md says which bits.
#include "attention/attention_case.h"
#include "attention/attention_expectation.h"
#include "attention/backward/attention_backward_testing.h"
#include "attention/extras/statistics_expectation.h"
#include "attention/tangent/attention_tangents_testing.h"
#include "layers/asked_layer.h"
#include "pipelines/certified_cases.h"
#include "pipelines/number_digest.h"
#include "qkv/pipelines/certify.h"
#include "reference/attention.h"

namespace qkv::testing {
namespace {

std::vector<std::string> fused_targets() {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.usable && target.fused) names.push_back(target.name);
  }
  return names;
}

void add_layers(Digests& all) {
  const TransformerLayerConfig layer{.model_dim = 24, .heads = 3, .ff_dim = 41};
  TransformerLayerConfig gated = layer;
  gated.norm_order = NormOrder::pre;
  const std::pair<const char*, Maker> makers[] = {
      {"linear", linear({.in = 37, .out = 29})},
      {"layer norm", norm({.dim = 75})},
      {"rms norm", norm({.dim = 83, .normalization = Normalization::rms})},
      {"heads", heads({.layer = {.model_dim = 24, .heads = 3}, .mask = Mask::causal()})},
      {"encoder", encoder(layer)},
      {"decoder", decoder(gated)},
      {"lstm", recurrent({.cell = RecurrentCell::lstm, .in = 9, .hidden = 37, .layers = 2})}};
  for (const auto& [name, make] : makers) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const auto made =
          make({.dtype = dtype, .lengths = {60, 3, 37}, .memory = {20, 51, 4}, .dropout = {.p = 0.1, .seed = 4}});
      const Training done(*made, 2);
      NumberDigest digest;
      for (const Tensor& out : done.out) digest.add(out);
      for (const Tensor& gradient : done.grad_in) digest.add(gradient);
      made->visit([&](const std::string&, const Parameter& own) { digest.add(own.gradient); });
      all[fmt::format("{} {}", name, name_of(dtype))] = digest.value();
    }
  }
}

// A line: a digest in hexadecimal, a space, a name.
std::string text_of(const Digests& digests) {
  std::string text;
  for (const auto& [name, digest] : digests) text += fmt::format("{:016x} {}\n", digest, name);
  return text;
}

// Of layers here, and of attention, rows and models in src/pipelines/certify.cc. Where one changes, so do bits that
// users keep: only with a new number of docs/arithmetic.md and a line of CHANGELOG.md. QKV_DIGESTS=FILE writes what
// this machine computes.
TEST(Arithmetic, HasTheKnownDigestsOnEveryTargetWithFusedMultiplyAdd) {
  std::ifstream file(QKV_TEST_DATA "/arithmetic/digests.txt");
  std::stringstream known;
  known << file.rdbuf();
  for (const std::string& target : fused_targets()) {
    select_target(target);
    Digests layers;
    add_layers(layers);
    EXPECT_EQ(text_of(layers), known.str()) << target;
    for (const CertifiedCase& found : certify()) {
      EXPECT_EQ(found.digest, found.expected) << target << ", " << found.name;
      if (std::getenv("QKV_DIGESTS") != nullptr) layers[found.name] = found.digest;
    }
    if (const char* path = std::getenv("QKV_DIGESTS")) std::ofstream(path) << text_of(layers);
  }
  select_target("");
}

// Wherever the key is whose logit it is, unless it is hidden.
TEST(Arithmetic, ALogitThatIsNanMakesTheLargestNan) {
  constexpr std::int64_t kKeys = 150;
  Random random(3);
  const Tensor q = normal(random, {1, 7, 8}), k = normal(random, {1, kKeys, 8});
  const Tensor length = Tensor::of<std::int32_t>({1}, {140});
  for (const Target& target : targets()) {
    if (!target.usable) continue;
    select_target(target.name);
    for (const std::int64_t key : {0, 1, 2, 3, 4, 6, 11, 127, 128, 139, 140, 149}) {
      Tensor keys = Tensor::copy(k), out = filled(q.shape(), 0), largest = filled({1, 7}, 0);
      keys.data<float>()[key * 8 + 3] = static_cast<float>(kNan);
      attention(q, keys, k, out, {.mask = Mask::lengths(length)}, {.row_maximum = largest});
      for (int i = 0; i < 7; ++i) {
        EXPECT_EQ(std::isnan(largest.data<float>()[i]), key < 140) << target.name << ", key " << key;
      }
    }
  }
  select_target("");
}

// A NaN whose bits are all ones is none of those that rounding to fewer bits keeps by itself.
TEST(Arithmetic, NanStaysNanInSixteenBits) {
  const Tensor rows = Tensor::zeros({1, 7, 8}, Dtype::bf16);
  Tensor bias = filled({7, 7}, 0);
  for (const int row : {0, 4}) bias.data<float>()[row * 7 + 2] = std::bit_cast<float>(~std::uint32_t{0});
  for (const Target& target : targets()) {
    if (!target.usable) continue;
    select_target(target.name);
    const Tensor out = convert(attention(rows, rows, rows, {.bias = Bias::view(bias)}), Dtype::f32);
    for (int i = 0; i < 56; ++i) {
      EXPECT_EQ(std::isnan(out.data<float>()[i]), i / 8 == 0 || i / 8 == 4) << target.name << ", element " << i;
    }
  }
  select_target("");
}

struct Named {
  std::string name;
  std::uint64_t digest;
  bool sums_queries = false;
};

void add_drawn_outputs(const AttentionCase& drawn, const AttentionOptions& options, std::vector<Named>& all) {
  const reference::AttentionResult exact = reference::attention(drawn.q, drawn.k, drawn.v, drawn.options);
  const bool one_batch = !drawn.packed() && drawn.q.rank() == 3;
  Tensor out = filled(exact.out.shape(), 0, drawn.out_dtype);
  RequestedOutputs requested(drawn, exact);
  const AttentionExtras& extras = requested.extras;
  attention(drawn.q, drawn.k, drawn.v, one_batch ? out.view().select(0, 0) : out.view(), options, extras);
  all.push_back({"out", digest_of({out})});
  all.push_back(
      {"outputs of queries", digest_of({extras.log_sum_exp, extras.weights, extras.logits, extras.row_weights,
                                        extras.row_maximum, extras.entropy, extras.top_keys, extras.top_weights})});
  all.push_back({"outputs of keys", digest_of({extras.received, extras.block_weights}), true});
}

void add_drawn_gradients(const AttentionCase& drawn, const AttentionOptions& options, std::vector<Named>& all) {
  Choices choices(drawn.seed);
  Dims shape = drawn.q.shape();
  shape[shape.size() - 1] = drawn.v.size(-1);
  Tensor grad_out = draw_numbers(choices, shape, drawn.out_dtype);
  drawn.unseen.put_into_queries(grad_out, kNan);
  const Gradients gradients = backward(drawn.q, drawn.k, drawn.v, grad_out, options, drawn.q.dtype(), drawn.out_dtype);
  all.push_back(
      {"gradients of queries, keys and values", digest_of({gradients.query, gradients.key, gradients.value}), true});
  NumberDigest digest;
  for (const std::vector<Tensor>* each : {&gradients.tables, &gradients.alibi_slopes, &gradients.bias}) {
    for (const Tensor& gradient : *each) digest.add(gradient);
  }
  for (const Tensor* each : {&gradients.sinks, &gradients.score_w_query, &gradients.score_w_key, &gradients.score_v}) {
    digest.add(each->view());
  }
  all.push_back({"gradients of parameters", digest.value(), true});
}

std::vector<Named> drawn_case(std::uint64_t seed) {
  const AttentionCase drawn(Choices(71'000'000 + seed), seed % 16 == 0 ? 1e5 : 1e4);
  std::vector<Named> all;
  if (size_of(drawn.q.dtype()) < 4) return all;
  AttentionOptions options = drawn.options;
  options.threads = 1 + static_cast<int>(seed % 3);
  try {
    add_drawn_outputs(drawn, options, all);
    if (drawn.is_finite) add_drawn_gradients(drawn, options, all);
  } catch (const std::invalid_argument&) {  // what a call refuses, it refuses everywhere
  }
  return all;
}

void expect_equal_bits(const std::vector<std::string>& names, bool sums_queries) {
  constexpr std::uint64_t kCases = 250;
  for (std::uint64_t seed = 0; seed < kCases && names.size() > 1; ++seed) {
    select_target(names[0]);
    const std::vector<Named> expected = drawn_case(seed);
    for (std::size_t n = 1; n < names.size(); ++n) {
      select_target(names[n]);
      const std::vector<Named> given = drawn_case(seed);
      ASSERT_EQ(given.size(), expected.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (given[i].sums_queries && !sums_queries) continue;
        EXPECT_EQ(given[i].digest, expected[i].digest)
            << "case " << seed << ", " << given[i].name << ": " << names[n] << " and " << names[0];
      }
    }
  }
  select_target("");
}

TEST(Arithmetic, AnyCallHasTheSameBitsOnEveryTargetWithFusedMultiplyAdd) { expect_equal_bits(fused_targets(), true); }

TEST(Arithmetic, TargetsWithoutHaveTheSameBitsButForSumsOverQueries) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.usable && !target.fused) names.push_back(target.name);
  }
  expect_equal_bits(names, false);
}

}  // namespace
}  // namespace qkv::testing
