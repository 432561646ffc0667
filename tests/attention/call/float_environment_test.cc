// A host program may flush subnormal numbers, round another way or trap: no bit depends on it, nothing traps, and what
// it set is there again afterwards. Of layers: layers/every_layer_test.cc.
#include "core/float_environment.h"

#include "attention/tangent/attention_tangents_testing.h"
#include "host_environment.h"
#include "qkv/matmul.h"
#include "qkv/threads.h"

#if defined(__x86_64__) || defined(__aarch64__)

namespace qkv {
namespace {

using testing::HostEnvironment;
using testing::normal;
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
