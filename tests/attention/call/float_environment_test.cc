// A host program may flush subnormal numbers, round another way or trap: no bit depends on it, nothing traps, and what
// it set is there again afterwards.
#include "core/float_environment.h"

#include <cfenv>

#include "attention/tangent/attention_tangents_testing.h"
#include "qkv/files.h"
#include "qkv/layers/transformer.h"
#include "qkv/matmul.h"
#include "qkv/threads.h"

#if defined(__x86_64__) || defined(__aarch64__)

namespace qkv {
namespace {

using testing::normal;

// What a host program sets, for as long as it lives.
class HostEnvironment {
 public:
  enum class Kind { flushes, flushes_and_rounds_up, traps };
  explicit HostEnvironment(Kind kind) {
    std::fegetenv(&before_);
    if (kind == Kind::flushes_and_rounds_up) std::fesetround(FE_UPWARD);
    if (kind == Kind::traps) {
      std::feclearexcept(FE_ALL_EXCEPT);
      feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
      return;
    }
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ and DAZ
#else
    std::uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    asm volatile("msr fpcr, %0" : : "r"(control | std::uint64_t{1} << 24));
#endif
  }
  ~HostEnvironment() { std::fesetenv(&before_); }

  // A twenty-fifth, less what it is rounded to nearest.
  static float quotient_less_nearest() {
    volatile float one = 1, divisor = 25;
    return one / divisor - 0x1.47ae14p-5f;
  }
  // The product of two numbers that is subnormal, or 0 where such products are flushed.
  static float subnormal() {
    volatile float small = 1e-20f;
    return small * small;
  }

 private:
  std::fenv_t before_;
};
using Kind = HostEnvironment::Kind;

QKV_ON_EACH_TARGET(FloatEnvironmentOf);

// All numbers of a call, with subnormal ones among them.
struct MixedArrays {
  explicit MixedArrays(Dtype dtype, std::int64_t q_len = 20) {
    Random random(1);
    const auto mixed = [&](const Dims& shape) {
      Tensor tensor = normal(random, shape, Dtype::f64);
      const double tiny = dtype == Dtype::f16 ? 1e-7 : dtype == Dtype::f64 ? 1e-310 : 1e-40;
      for (std::int64_t i = 0; i < tensor.element_count(); ++i) tensor.data<double>()[i] *= i % 3 == 0 ? tiny : 1;
      return convert(tensor, dtype);
    };
    q = mixed({2, 4, q_len, 16}), k = mixed({2, 2, 70, 16}), v = mixed({2, 2, 70, 16});
  }
  Tensor q, k, v;
};

// What every pass gives, and a product of matrices.
std::vector<Tensor> all_of(const testing::MovingArrays& a, const AttentionOptions& options) {
  const testing::Outcome found = testing::attend(a.q, a.k, a.v, options);
  const testing::Gradients first = testing::backward(a.q, a.k, a.v, a.grad_out, options);
  std::vector<Tensor> all{found.out,   found.log_sum_exp, found.weights, found.logits,
                          first.query, first.key,         first.value};
  if (size_of(a.q.dtype()) == 2) return all;
  const testing::Moved moved = testing::jvp(a, options);
  const testing::SecondGradients second = testing::double_backward(a, options);
  Tensor product = Tensor::zeros({280, 16}, a.q.dtype());
  matmul(a.k.view().reshape({280, 16}), a.v.view().reshape({280, 16}).slice(0, 0, 16), product, {.threads = 1});
  all.insert(all.end(),
             {moved.out, moved.log_sum_exp, second.query, second.key, second.value, second.grad_out, product});
  return all;
}

void expect_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(testing::same_bits(got[i], wanted[i])) << i;
}

// Also in a caller's own pool, whose threads have an environment of their own.
TEST_P(FloatEnvironmentOf, ChangesNoBit) {
  const Tensor slopes = Tensor::of<float>({4}, {0, 1e-40f, 1, 0.1f});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t q_len : {1, 20}) {
      const MixedArrays mixed(dtype, q_len);
      Random random(2);
      const testing::MovingArrays a(random, mixed.q, mixed.k, mixed.v);
      for (const int threads : {1, 3}) {
        const AttentionOptions options{
            .mask = Mask::causal(Align::bottom_right), .bias = Bias::alibi(slopes), .threads = threads};
        const std::vector<Tensor> wanted = all_of(a, options);
        {
          const HostEnvironment host(Kind::flushes_and_rounds_up);
          const std::vector<Tensor> got = all_of(a, options);
          expect_bits(got, wanted);
        }
        set_parallel_runner([](std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
          const HostEnvironment host(Kind::flushes);
          for (std::int64_t index = 0; index < tasks; ++index) task(context, index, 0);
        });
        expect_bits(all_of(a, options), wanted);
        set_parallel_runner(nullptr);
      }
    }
  }
}

// Equal keys: the output is the value, which is subnormal.
TEST_P(FloatEnvironmentOf, SubnormalValuesRemain) {
  const Tensor q = testing::filled({1, 3, 4}, 1), k = testing::filled({1, 9, 4}, 1);
  const Tensor v = testing::filled({1, 9, 4}, 1e-40);
  const HostEnvironment host(Kind::flushes);
  for (const std::int64_t q_len : {1, 3}) {
    const Tensor out = attention(q.view().slice(1, 0, q_len), k, v, {.threads = 1});
    const auto bits = reinterpret_cast<const std::uint32_t*>(out.data<float>());
    EXPECT_NEAR(bits[0], 71362, 1);  // 1e-40 / 2^-149
  }
}

// A layered model without biases, and inputs that are all subnormal: where these count as 0, so does every output.
class LayersOfSubnormalNumbers {
 public:
  LayersOfSubnormalNumbers() {
    const SafeTensors golden = read_safetensors(QKV_TEST_DATA "/golden/transformer/transformer.safetensors");
    std::map<std::string, Tensor> tensors;
    for (const auto& [key, tensor] : golden.tensors) {
      if (!key.starts_with("pre.weights.")) continue;
      tensors[key.substr(12)] = key.ends_with("bias") ? Tensor::zeros(tensor.shape()) : tensor;
    }
    Weights weights(std::move(tensors), "pre", Dtype::f32);
    model_.emplace(TransformerConfig{.layer = {.model_dim = 8,
                                               .heads = 2,
                                               .ff_dim = 12,
                                               .activation = Activation::gelu,
                                               .norm_order = NormOrder::pre},
                                     .encoder_layers = 2,
                                     .decoder_layers = 2},
                   weights);
    model_->update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
    source_ = golden.tensors.at("pre.source"), target_ = golden.tensors.at("pre.target");
    for (Tensor* input : {&source_, &target_}) {
      for (std::int64_t i = 0; i < input->element_count(); ++i) input->data<float>()[i] *= 1e-39f;
    }
    grad_out_ = golden.tensors.at("pre.grad_out");
  }

  // The output, and every gradient.
  std::vector<Tensor> run() {
    TransformerSaved saved;
    std::vector<Tensor> all{model_->forward(source_, target_, {.threads = 1}, {}, saved)};
    const TransformerGradients inputs = model_->backward(source_, target_, {.threads = 1}, {}, saved, grad_out_);
    all.push_back(inputs.source), all.push_back(inputs.target);
    model_->visit([&](const std::string&, const Parameter& parameter) { all.push_back(parameter.gradient); });
    return all;
  }

 private:
  std::optional<Transformer> model_;
  Tensor source_, target_, grad_out_;
};

TEST(FloatEnvironmentOfLayers, ChangesNoBit) {
  LayersOfSubnormalNumbers first, second;  // made before the host program flushes
  const std::vector<Tensor> wanted = first.run();
  EXPECT_GT(testing::largest(wanted[0]), 0);
  const HostEnvironment host(Kind::flushes);
  expect_bits(second.run(), wanted);
}

// NaN, infinities, rows without keys, underflow: whatever ordinary and masked input brings about.
TEST_P(FloatEnvironmentOf, NothingTraps) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t q_len : {1, 20}) {
      MixedArrays a(dtype, q_len);
      testing::put(a.k, {0, 0, 69, 3}, testing::kNan);
      testing::put(a.v, {0, 0, 69, 3}, testing::kInfinity);
      testing::put(a.q, {1, 1, 0, 0}, 60000);
      const Tensor lengths = Tensor::of<std::int32_t>({2}, {60, 0});
      const AttentionOptions options{.mask = Mask::lengths(lengths) & Mask::causal(), .soft_cap = 20, .threads = 2};
      const testing::Outcome wanted = testing::attend(a.q, a.k, a.v, options);
      const Tensor grad_out = testing::filled(a.q.shape(), 1e-30, dtype);
      testing::Outcome got = wanted;
      {
        const HostEnvironment host(Kind::traps);
        got = testing::attend(a.q, a.k, a.v, options);
        testing::backward(a.q, a.k, a.v, grad_out, options);
      }
      expect_same(got, wanted);
    }
  }
}

TEST(FloatEnvironment, OfTheCallerComesBack) {
  const MixedArrays a(Dtype::f32);
  const HostEnvironment host(Kind::flushes_and_rounds_up);
  attention(a.q, a.k, a.v, {.threads = 2});
  EXPECT_EQ(HostEnvironment::subnormal(), 0);
  EXPECT_GT(HostEnvironment::quotient_less_nearest(), 0);
  {
    const FloatEnvironment ours;
    EXPECT_GT(HostEnvironment::subnormal(), 0);
    EXPECT_EQ(HostEnvironment::quotient_less_nearest(), 0);
  }
  EXPECT_EQ(HostEnvironment::subnormal(), 0);
}

}  // namespace
}  // namespace qkv

#endif
