// Results have the same bits on every target with fused multiply-add, and the digests of digests.txt; those without
// have the same bits, too, but for sums over queries. docs/arithmetic.md says which bits.
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <type_traits>

#include "attention/attention_case.h"
#include "attention/attention_expectation.h"
#include "attention/backward/attention_backward_testing.h"
#include "attention/extras/statistics_expectation.h"
#include "attention/tangent/attention_tangents_testing.h"
#include "layers/asked_layer.h"
#include "ops/rowwise/row_kernels.h"
#include "reference/attention.h"

namespace qkv::testing {
namespace {

// Equal bits give equal digests. NaN counts as one number, and so does 0, whose sign no rule fixes.
class Digest {
 public:
  void add(const TensorView& view) {
    if (!view) return;
    const Tensor whole = Tensor::copy(view);
    const auto count = static_cast<std::size_t>(whole.element_count());
    if (whole.dtype() == Dtype::f32) {
      for (std::size_t i = 0; i < count; ++i) add_number(whole.data<float>()[i]);
    } else if (whole.dtype() == Dtype::f64) {
      for (std::size_t i = 0; i < count; ++i) add_number(whole.data<double>()[i]);
    } else {
      const auto* bytes = reinterpret_cast<const unsigned char*>(whole.view().bytes());
      for (std::size_t i = 0; i < count * size_of(whole.dtype()); ++i) add_word(bytes[i]);
    }
  }

  template <class T>
  void add_number(T number) {
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    if (number != number) {
      add_word(1);
    } else if (number != 0) {
      add_word(std::bit_cast<Word>(number));
    } else {
      add_word(0);
    }
  }

  std::uint64_t value() const { return state_; }

 private:
  // FNV-1a, word by word.
  void add_word(std::uint64_t word) { state_ = (state_ ^ word) * 1099511628211u; }

  std::uint64_t state_ = 14695981039346656037u;
};

using Digests = std::map<std::string, std::uint64_t>;

std::vector<std::string> fused_targets() {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.usable && target.fused) names.push_back(target.name);
  }
  return names;
}

Tensor zeros(const Dims& shape, Dtype dtype) { return Tensor::zeros(shape, dtype); }

std::uint64_t digest_of(const std::vector<TensorView>& views) {
  Digest digest;
  for (const TensorView& view : views) digest.add(view);
  return digest.value();
}

struct Shape {
  std::int64_t heads, q_len, k_len, head_dim;
};

AttentionOptions options_of(int n, const Tensor& numbers, const Tensor& table) {
  AttentionOptions options;
  options.threads = 1 + n % 3;
  if (n % 6 == 1) options.mask = Mask::causal();
  if (n % 6 == 2) options.mask = Mask::window(9, 5);
  if (n % 6 == 3) options.bias = Bias::alibi(numbers);
  if (n % 6 == 4) options.soft_cap = 3;
  if (n % 6 == 5) options.bias = Bias::table(RelativeTable::clipped(table));
  if (n % 4 == 2) options.sinks = numbers;
  return options;
}

// Attention with what may be asked for, its gradients and tangents, of numbers that the library's own generator draws.
void add_attention(Digests& all) {
  const Shape shapes[] = {{2, 197, 197, 64}, {3, 33, 65, 7},     {2, 128, 128, 32},
                          {1, 60, 1300, 40}, {1, 150, 2100, 16}, {2, 5, 300, 24}};
  Random random(5);
  int n = 0;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const auto& [heads, q_len, k_len, size] : shapes) {
      const Tensor q = normal(random, {1, heads, q_len, size}, dtype),
                   k = normal(random, {1, heads, k_len, size}, dtype),
                   v = normal(random, {1, heads, k_len, size}, dtype),
                   g = normal(random, {1, heads, q_len, size}, dtype), numbers = normal(random, {heads}, dtype),
                   table = normal(random, {21, heads}, dtype);
      const AttentionOptions options = options_of(n, numbers, table);
      const std::string name = fmt::format("{} {}x{}x{}x{}", name_of(dtype), heads, q_len, k_len, size);
      Tensor out = zeros(q.shape(), dtype), row = zeros({1, heads, q_len}, dtype),
             entropy = zeros({1, heads, q_len}, dtype), received = zeros({1, heads, k_len}, dtype),
             weights = zeros({1, heads, q_len, k_len}, dtype);
      AttentionExtras extras;
      extras.log_sum_exp = row;
      attention(q, k, v, out, options, extras);
      all["forward " + name] = digest_of({out, row});
      extras.entropy = entropy;
      extras.received = received;
      extras.weights = weights;
      attention(q, k, v, out, options, extras);
      all["outputs " + name] = digest_of({entropy, received, weights});
      const Gradients gradients = backward(q, k, v, g, options, dtype, dtype);
      std::vector<TensorView> views{gradients.query, gradients.key, gradients.value};
      for (const Tensor& each : gradients.tables) views.push_back(each);
      for (const Tensor& each : gradients.alibi_slopes) views.push_back(each);
      if (options.sinks) views.push_back(gradients.sinks);
      all["backward " + name] = digest_of(views);
      if (++n % 3 != 0) continue;
      AttentionOptions plain = options;
      plain.soft_cap = 0;
      const MovingArrays moving(random, q, k, v);
      const Moved moved = jvp(moving, plain);
      const SecondGradients second = double_backward(moving, plain);
      all["tangents " + name] = digest_of({moved.out, moved.log_sum_exp, second.query, second.key, second.value});
    }
    const Shape singles[] = {{4, 1, 2500, 128}, {1, 1, 700, 33}, {6, 1, 40, 64}};
    for (const auto& [heads, q_len, k_len, size] : singles) {
      const Tensor q = normal(random, {1, heads, 1, size}, dtype), k = normal(random, {1, 1, k_len, size}, dtype),
                   v = normal(random, {1, 1, k_len, size}, dtype), numbers = normal(random, {heads}, dtype),
                   table = normal(random, {21, heads}, dtype);
      Tensor out = zeros(q.shape(), dtype), row = zeros({1, heads, 1}, dtype);
      AttentionExtras extras;
      extras.log_sum_exp = row;
      attention(q, k, v, out, options_of(++n, numbers, table), extras);
      all[fmt::format("single query {} {}x{}x{}", name_of(dtype), heads, k_len, size)] = digest_of({out, row});
    }
  }
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
      Digest digest;
      for (const Tensor& out : done.out) digest.add(out);
      for (const Tensor& gradient : done.grad_in) digest.add(gradient);
      made->visit([&](const std::string&, const Parameter& own) { digest.add(own.gradient); });
      all[fmt::format("{} {}", name, name_of(dtype))] = digest.value();
    }
  }
}

void add_rows(Digests& all) {
  Random random(9);
  const std::pair<const char*, Activation> activations[] = {
      {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}, {"silu", Activation::silu}};
  for (const auto& [name, activation] : activations) {
    const Tensor x = normal(random, {10007}, Dtype::f32, 4);
    Tensor y = Tensor::copy(x), gradient = filled({10007}, 1);
    activate(activation, y.data<float>(), 10007);
    activate_backward(activation, x.data<float>(), gradient.data<float>(), 10007);
    all[name] = digest_of({y, gradient});
  }
  Tensor logits = normal(random, {3, 1003}, Dtype::f32, 3);
  Digest digest;
  digest.add_number(log_sum_exp(std::span<const float>(logits.data<float>(), 1003)));
  const std::int32_t wanted[] = {5, 1002, 77};
  double loss[3], nll[3];
  cross_entropy_rows(CrossEntropyRows<float>{.logits = logits.data<float>(),
                                             .stride = 1003,
                                             .rows = 3,
                                             .classes = 1003,
                                             .targets = wanted,
                                             .excluded = -1,
                                             .smoothing = 0.1,
                                             .scale = 0.5,
                                             .gradients = true,
                                             .loss = loss,
                                             .nll = nll});
  digest.add(logits);
  for (const double each : loss) digest.add_number(each);
  for (const double each : nll) digest.add_number(each);
  all["cross entropy"] = digest.value();
}

Digests golden_cases() {
  Digests all;
  add_attention(all);
  add_layers(all);
  add_rows(all);
  return all;
}

// A line: a digest in hexadecimal, a space, a name.
std::string text_of(const Digests& digests) {
  std::string text;
  for (const auto& [name, digest] : digests) text += fmt::format("{:016x} {}\n", digest, name);
  return text;
}

// Where it changes, so do bits that users keep: only with a new number of docs/arithmetic.md and a line of
// CHANGELOG.md. QKV_DIGESTS=FILE writes what this machine computes.
TEST(Arithmetic, HasTheKnownDigestsOnEveryTargetWithFusedMultiplyAdd) {
  std::ifstream file(QKV_TEST_DATA "/arithmetic/digests.txt");
  std::stringstream known;
  known << file.rdbuf();
  for (const std::string& target : fused_targets()) {
    select_target(target);
    const std::string text = text_of(golden_cases());
    if (const char* path = std::getenv("QKV_DIGESTS")) std::ofstream(path) << text;
    EXPECT_EQ(text, known.str()) << target;
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
  Digest digest;
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
