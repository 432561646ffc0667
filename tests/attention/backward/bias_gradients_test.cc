// Gradients of bias views: sums over whatever dimensions a view broadcasts along, the same bits for any number of
// threads.
#include "attention/attention_case.h"
#include "attention/backward/attention_backward_testing.h"
#include "qkv/threads.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

using testing::filled;
using testing::normal;

// A call with gradients of its biases.
struct Call {
  Tensor q, k, v, grad_out;
  std::vector<Tensor> biases{};
  AttentionOptions options{};

  Call(Random& random, Dtype dtype, const Dims& query, const Dims& key)
      : q(normal(random, query, dtype)),
        k(normal(random, key, dtype)),
        v(normal(random, key, dtype)),
        grad_out(normal(random, query, dtype)) {}

  void add_bias(Random& random, const Dims& shape) {
    biases.push_back(normal(random, shape, testing::accumulation_of(q.dtype())));
    options.bias = {};
    for (const Tensor& bias : biases) options.bias = options.bias + Bias::view(bias);
  }

  // In tensors that held NaN.
  std::vector<Tensor> gradients(int threads = 2) const {
    const testing::Forward kept = testing::forward(q, k, v, options);
    std::vector<Tensor> result;
    std::vector<MutableTensorView> places;
    for (const Tensor& bias : biases) result.push_back(filled(bias.shape(), testing::kNan, bias.dtype()));
    for (Tensor& gradient : result) places.push_back(gradient);
    AttentionOptions threaded = options;
    threaded.threads = threads;
    attention_backward(q, k, v, kept.out, kept.log_sum_exp, grad_out, threaded, {.bias = places});
    return result;
  }

  void expect_like_reference() const {
    const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, options);
    const std::vector<Tensor> got = gradients();
    for (std::size_t n = 0; n < biases.size(); ++n) {
      // Products of a dozen numbers near 1, in f32 or f64; bf16 and f16 also round the output that is subtracted.
      const double unit = q.dtype() == Dtype::f64 ? 1e-15 : 1e-6 + testing::rounding(q.dtype());
      const double terms = static_cast<double>(q.element_count() / q.size(-1)) * static_cast<double>(k.size(-2)) /
                           static_cast<double>(biases[n].element_count());
      EXPECT_LE(testing::difference(got[n], exact.bias[n]), 20 * unit * std::max(1.0, std::sqrt(terms)))
          << to_string(biases[n].shape());
    }
  }
};

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

// Extents of `whole`, or 1 where a bit is set.
Dims broadcast_shape(int bits, const Dims& whole) {
  Dims shape;
  for (int dim = 0; dim < whole.size(); ++dim) shape.push_back((bits >> dim & 1) != 0 ? 1 : whole[dim]);
  return shape;
}

QKV_ON_EACH_TARGET(BiasGradients);

TEST_P(BiasGradients, EveryBroadcastShape) {
  for (const Dtype dtype : kFloating) {
    for (int bits = 0; bits < 16; ++bits) {
      Random random(1);
      Call call(random, dtype, {2, 4, 53, 8}, {2, 2, 70, 8});
      call.add_bias(random, broadcast_shape(bits, {2, 4, 53, 70}));
      call.expect_like_reference();
    }
  }
}

TEST_P(BiasGradients, SeveralViewsUnderMasksCapAndDropout) {
  Random random(2);
  const Tensor visible = testing::coin_flips(random, {2, 1, 60, 130}, 0.6),
               slopes = Tensor::of<float>({2}, {0.1f, -0.2f});
  for (const Mask& mask : {Mask::boolean(visible), Mask::causal(Align::bottom_right), Mask::window(20, 3)}) {
    Call call(random, Dtype::f32, {2, 2, 60, 16}, {2, 1, 130, 16});
    call.add_bias(random, {130});
    call.add_bias(random, {2, 1, 60, 130});
    call.add_bias(random, {2, 60, 1});
    call.options.bias = call.options.bias + Bias::alibi(slopes);
    call.options.mask = mask;
    call.expect_like_reference();
    call.options.soft_cap = 2;
    call.options.dropout = {.p = 0.3, .seed = 4};
    call.expect_like_reference();
  }
}

TEST_P(BiasGradients, Packed) {
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 60, 60, 71}),
               k_offsets = Tensor::of<std::int32_t>({4}, {0, 9, 40, 110});
  for (int bits = 0; bits < 16; ++bits) {
    Random random(3);
    Call call(random, Dtype::f64, {71, 2, 8}, {110, 1, 8});
    call.add_bias(random, broadcast_shape(bits, {3, 2, 60, 70}));
    call.options.offsets_query = q_offsets;
    call.options.offsets_key = k_offsets;
    call.expect_like_reference();
  }
}

// Two chunks of keys, of which the second sequence has one; heads that share a key.
TEST_P(BiasGradients, AnyNumberOfThreads) {
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {1100, 40});
  for (const int bits : {0, 3, 4, 7, 8, 15}) {
    SCOPED_TRACE(bits);
    Random random(5);
    Call call(random, Dtype::f32, {2, 4, 50, 8}, {2, 2, 1100, 8});
    call.add_bias(random, broadcast_shape(bits, {2, 4, 50, 1100}));
    call.options.mask = Mask::lengths(lengths);
    const Tensor one = call.gradients(1)[0];
    for (const int threads : {2, 3, 4, 7, 16}) EXPECT_TRUE(testing::same_bits(call.gradients(threads)[0], one));
  }
}

// A caller's pool that runs the tasks from the last to the first.
void reversed_runner(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks - 1; index >= 0; --index) task(context, index, 0);
}

TEST_P(BiasGradients, AnyOrderOfTasks) {
  Random random(6);
  Call call(random, Dtype::f32, {2, 4, 70, 8}, {2, 2, 1100, 8});
  call.add_bias(random, {1, 1, 70, 1100});
  call.add_bias(random, {1, 1, 1, 1});
  const std::vector<Tensor> wanted = call.gradients();
  set_parallel_runner(reversed_runner);
  const std::vector<Tensor> reversed = call.gradients();
  set_parallel_runner(nullptr);
  for (std::size_t n = 0; n < 2; ++n) EXPECT_TRUE(testing::same_bits(reversed[n], wanted[n]));
}

TEST_P(BiasGradients, PlacesWithStridesAndPlacesNotGiven) {
  Random random(7);
  Call call(random, Dtype::f32, {1, 2, 20, 8}, {1, 2, 40, 8});
  call.add_bias(random, {2, 20, 40});
  call.add_bias(random, {20, 40});
  const std::vector<Tensor> wanted = call.gradients();
  Tensor turned = filled({40, 20}, testing::kNan);
  const MutableTensorView place = turned.view().transpose(0, 1);
  const testing::Forward kept = testing::forward(call.q, call.k, call.v, call.options);
  attention_backward(call.q, call.k, call.v, kept.out, kept.log_sum_exp, call.grad_out, call.options,
                     {.bias = {{}, place}});
  EXPECT_TRUE(testing::same_bits(place, wanted[1]));
}

TEST_P(BiasGradients, NoKeysAndEmptyBatches) {
  Random random(8);
  for (const Dims& key : {Dims{2, 1, 0, 8}, Dims{0, 1, 5, 8}}) {
    Call call(random, Dtype::f32, {key[0], 1, 6, 8}, key);
    call.add_bias(random, {6, 1});
    for (const double number : testing::values(call.gradients()[0])) EXPECT_EQ(number, 0);
  }
}

TEST(BiasGradientsArguments, EachRuleIsNamed) {
  const auto message = [](const std::vector<MutableTensorView>& places) -> std::string {
    Random random(9);
    Call call(random, Dtype::f32, {1, 2, 6, 8}, {1, 2, 5, 8});
    call.add_bias(random, {2, 6, 5});
    const testing::Forward kept = testing::forward(call.q, call.k, call.v, call.options);
    try {
      attention_backward(call.q, call.k, call.v, kept.out, kept.log_sum_exp, call.grad_out, call.options,
                         {.bias = places});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  Tensor fits = filled({2, 6, 5}, 7), wide = filled({2, 6, 5}, 7, Dtype::f64), small = filled({1, 6, 5}, 7);
  Tensor surplus = filled({2, 6, 5}, 7);
  EXPECT_EQ(message({fits}), "accepted");
  fits = filled({2, 6, 5}, 7);
  EXPECT_EQ(message({fits, surplus}), "attention: 2 gradients of bias views were requested, there are 1 views");
  EXPECT_EQ(message({small}), "attention: the gradient of a bias must be [2, 6, 5], got [1, 6, 5]");
  EXPECT_EQ(message({wide}), "attention: the gradient of a bias is f64; it must be f32");
  EXPECT_EQ(message({{fits.view().bytes(), Dtype::f32, {2, 6, 5}, {0, 5, 1}}}),
            "attention: the gradient of a bias repeats elements (stride 0); an output cannot");
  for (const Tensor* place : {&fits, &wide, &small}) {
    for (const double number : testing::values(*place)) ASSERT_EQ(number, 7);
  }
}

}  // namespace
}  // namespace qkv
