// Gradients of parameters: of bias views, over whatever dimensions one broadcasts along, and of scores, beside those of
// queries, keys and values. Tables, slopes and sinks: attention_backward_grid_test.cc.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "attention/backward/attention_backward_testing.h"
#include "attention/backward/parameter_sums.h"
#include "qkv/threads.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

using testing::filled;
using testing::Gradients;
using testing::kNan;
using testing::normal;

constexpr Score::Kind kKinds[] = {Score::Kind::scaled_dot, Score::Kind::additive, Score::Kind::concat,
                                  Score::Kind::bilinear};
// Each shape that broadcasts to the whole, in fours, as many as a call takes.
std::vector<std::vector<Dims>> broadcast_shapes(const Dims& whole) {
  std::vector<std::vector<Dims>> fours(4);
  for (int bits = 0; bits < 16; ++bits) {
    Dims shape;
    for (int dim = 0; dim < 4; ++dim) shape.push_back((bits >> dim & 1) != 0 ? 1 : whole[dim]);
    fours[static_cast<std::size_t>(bits % 4)].push_back(shape);
  }
  return fours;
}

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

// Queries of size 8, values of size 6; keys of another size than queries where the score allows it.
struct ParameterCall {
  // Shapes without the sizes of the rows.
  ParameterCall(Score::Kind kind, Dtype type, const Dims& queries, const Dims& keys, std::int64_t hidden = 7)
      : dtype(type) {
    const std::int64_t k_dim = kind == Score::Kind::scaled_dot ? 8 : 5;
    const auto rows = [&](Dims shape, std::int64_t size) {
      shape.push_back(size);
      return normal(random, shape, dtype);
    };
    q = rows(queries, 8), k = rows(keys, k_dim), v = rows(keys, 6), grad_out = rows(queries, 6);
    const double small = 1 / std::sqrt(8.0);
    if (kind == Score::Kind::bilinear) {
      options.score = Score::bilinear(draw({8, k_dim}, small / std::sqrt(static_cast<double>(k_dim))));
    } else if (kind == Score::Kind::concat) {
      options.score = Score::concat(draw({hidden, 8 + k_dim}, small), draw({hidden}));
    } else if (kind == Score::Kind::additive) {
      options.score = Score::additive(draw({hidden, 8}, small), draw({hidden, k_dim}, small), draw({hidden}));
    }
  }

  TensorView draw(const Dims& shape, double spread = 1) {
    return parameters.emplace_back(normal(random, shape, testing::accumulation_of(dtype), spread));
  }
  void set_biases(const std::vector<Dims>& shapes) {
    options.bias = {};
    for (const Dims& shape : shapes) options.bias = options.bias + Bias::view(draw(shape));
  }
  Gradients gradients(std::optional<Dtype> of_type = std::nullopt) const {
    return testing::backward(q, k, v, grad_out, options, of_type);
  }

  // `error`: of a sum of numbers near 1; if not given, some hundred roundings of f32 or f64. Halves also round the
  // output that is subtracted, and the gradients.
  void expect_like_reference(std::optional<double> error = {}, std::optional<Dtype> of_type = {}) const {
    const double of_sum = error.value_or(dtype == Dtype::f64 ? 2e-14 : 1e-5 + 8 * testing::rounding(dtype));
    const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, options);
    const Gradients got = gradients(of_type);
    const auto check = [&](const std::string& name, const Tensor& own, const Tensor& wanted, double size = 1) {
      EXPECT_LE(testing::difference(own, wanted), of_sum * std::max(size, testing::largest(wanted))) << name;
    };
    check("queries", got.query, exact.query);
    check("keys", got.key, exact.key);
    check("values", got.value, exact.value);
    check("w_query", got.score_w_query, exact.score.w_query);
    check("w_key", got.score_w_key, exact.score.w_key);
    check("v", got.score_v, exact.score.v);
    ASSERT_EQ(got.bias.size(), exact.bias.size());
    const double pairs = static_cast<double>(q.element_count() / 8 * k.size(-2));
    for (std::size_t n = 0; n < got.bias.size(); ++n) {
      const double sums = std::sqrt(pairs / static_cast<double>(got.bias[n].element_count()));
      check(to_string(got.bias[n].shape()), got.bias[n], exact.bias[n], std::max(1.0, sums));
    }
  }

  Dtype dtype;
  Random random{1};
  std::deque<Tensor> parameters{};
  Tensor q{}, k{}, v{}, grad_out{};
  AttentionOptions options{};
};

QKV_ON_EACH_TARGET(ParameterGradients);

TEST_P(ParameterGradients, EveryScoreAndEveryBiasInEveryType) {
  for (const Score::Kind kind : kKinds) {
    for (const Dtype dtype : kFloating) {
      SCOPED_TRACE(fmt::format("{} score {}", name_of(dtype), static_cast<int>(kind)));
      ParameterCall(kind, dtype, {1, 4, 53}, {1, 2, 70}).expect_like_reference();
      if (kind != Score::Kind::scaled_dot) continue;
      ParameterCall call(kind, dtype, {2, 4, 53}, {2, 2, 70});
      for (const std::vector<Dims>& shapes : broadcast_shapes({2, 4, 53, 70})) {
        call.set_biases(shapes);
        call.expect_like_reference();
      }
    }
  }
}

TEST_P(ParameterGradients, WideGradientsOfHalves) {
  for (const Score::Kind kind : kKinds) {
    ParameterCall(kind, Dtype::bf16, {20}, {30}).expect_like_reference(0.03, Dtype::f32);
  }
}

TEST_P(ParameterGradients, UnderMasksCapAndDropout) {
  Random random(2);
  const Tensor visible = testing::coin_flips(random, {2, 1, 30, 130}, 0.6);
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {90, 0}), slopes = Tensor::of<float>({2}, {0.1f, -0.2f});
  for (const Score::Kind kind : kKinds) {
    for (const Mask& mask :
         {Mask::boolean(visible), Mask::causal(Align::bottom_right), Mask::window(20, 3), Mask::lengths(lengths)}) {
      ParameterCall call(kind, Dtype::f32, {2, 2, 30}, {2, 1, 130}, 20);
      call.set_biases({{130}, {2, 1, 30, 130}, {2, 30, 1}});
      call.options.bias = call.options.bias + Bias::alibi(slopes);
      call.options.mask = mask;
      call.options.scale = -0.8;
      if (kind == Score::Kind::scaled_dot) call.expect_like_reference(2e-5);
      call.options.soft_cap = 2;
      call.options.dropout = {.p = 0.3, .seed = 4};
      call.expect_like_reference(2e-5);
    }
  }
}

TEST_P(ParameterGradients, Packed) {
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 60, 60, 71});
  const Tensor k_offsets = Tensor::of<std::int32_t>({4}, {0, 9, 40, 110});
  for (const Score::Kind kind : kKinds) {
    ParameterCall call(kind, Dtype::f64, {71, 2}, {110, 1});
    call.options.offsets_query = q_offsets;
    call.options.offsets_key = k_offsets;
    for (const std::vector<Dims>& shapes : broadcast_shapes({3, 2, 60, 70})) {
      call.set_biases(shapes);
      call.expect_like_reference();
    }
  }
}

// What a mask hides reaches no parameter, even if it holds NaN.
TEST_P(ParameterGradients, HiddenKeysAndRowsWithoutKeysTakeNoPart) {
  Tensor visible = filled({20, 70}, 1, Dtype::u8);
  for (std::int64_t i = 0; i < 20; ++i) visible.view().at<std::uint8_t>({i, 33}) = 0;
  for (std::int64_t j = 0; j < 70; ++j) visible.view().at<std::uint8_t>({11, j}) = 0;
  for (const Score::Kind kind : kKinds) {
    for (const double cap : {0.0, 2.0}) {
      ParameterCall clean(kind, Dtype::f32, {1, 2, 20}, {1, 2, 70});
      clean.set_biases({{20, 70}});
      clean.options.mask = Mask::boolean(visible);
      clean.options.soft_cap = cap;
      ParameterCall poisoned = clean;
      testing::put(poisoned.k, {0, 1, 33, 2}, kNan);
      testing::put(poisoned.v, {0, 1, 33, 2}, kNan);
      testing::put(poisoned.q, {0, 0, 11, 3}, testing::kInfinity);
      testing::expect_same(clean.gradients(), poisoned.gradients());
      clean.expect_like_reference(2e-5);
    }
  }
}

// Chunks of keys, of which the second sequence has one; heads that share a key.
TEST_P(ParameterGradients, AnyNumberOfThreads) {
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {2100, 40});
  for (const Score::Kind kind : kKinds) {
    ParameterCall call(kind, Dtype::f32, {2, 2, 50}, {2, 1, 2100}, 5);
    call.set_biases({{2, 2, 50, 2100}, {1, 1, 50, 2100}, {2, 2, 1, 2100}, {1}});
    call.options.mask = Mask::lengths(lengths);
    call.options.threads = 1;
    const Gradients one = call.gradients();
    for (const int threads : {2, 3, 16}) {
      SCOPED_TRACE(threads);
      call.options.threads = threads;
      testing::expect_same(one, call.gradients());
    }
  }
}

// A caller's pool that runs the tasks from the last to the first.
void reversed_runner(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks - 1; index >= 0; --index) task(context, index, 0);
}

TEST_P(ParameterGradients, AnyOrderOfTasks) {
  ParameterCall call(Score::Kind::scaled_dot, Dtype::f32, {2, 4, 70}, {2, 2, 1100});
  call.set_biases({{1, 1, 70, 1100}, {1, 1, 1, 1}});
  call.options.threads = 2;
  const Gradients wanted = call.gradients();
  set_parallel_runner(reversed_runner);
  const Gradients reversed = call.gradients();
  set_parallel_runner(nullptr);
  testing::expect_same(reversed, wanted);
}

TEST_P(ParameterGradients, PlacesWithStridesAndPlacesNotGiven) {
  ParameterCall call(Score::Kind::scaled_dot, Dtype::f32, {1, 2, 20}, {1, 2, 40});
  call.set_biases({{2, 20, 40}, {20, 40}});
  Tensor turned = filled({40, 20}, kNan);
  const MutableTensorView place = turned.view().transpose(0, 1);
  const testing::Forward kept = testing::forward(call.q, call.k, call.v, call.options);
  attention_backward(call.q, call.k, call.v, kept.out, kept.log_sum_exp, call.grad_out, call.options,
                     {.bias = {{}, place}});
  EXPECT_TRUE(testing::same_bits(place, call.gradients().bias[1]));
}

TEST_P(ParameterGradients, EmptySizes) {
  for (const Score::Kind kind : kKinds) {
    for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {  // [batch, heads, q_len, k_len]
      SCOPED_TRACE(to_string(size));
      ParameterCall call(kind, Dtype::f32, {size[0], size[1], size[2]}, {size[0], 1, size[3]});
      call.set_biases({{size[2], 1}});
      const Gradients got = call.gradients();
      for (const Tensor* x :
           {&got.query, &got.key, &got.value, &got.score_w_query, &got.score_w_key, &got.score_v, &got.bias[0]}) {
        testing::expect_zeros(*x);
      }
    }
  }
}

// Shares of chunks whose sum in order is 0, and in any other order is not.
TEST(ParameterSums, ChunksWaitForTheirTurn) {
  const Tensor q = Tensor::zeros({1, 3, 4}, Dtype::f64), k = Tensor::zeros({1, 3000, 4}, Dtype::f64);
  const Tensor table = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionOptions options{.bias = Bias::table(RelativeTable::clipped(table))};
  Tensor gradient = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionGradients gradients{.tables = {gradient.view()}};
  const AttentionProblem problem(q, k, k, options);
  ParameterSums sums(problem, options, gradients);
  sums.begin(/*threads=*/3, /*blocks=*/1);
  const double shares[] = {1, 0x1p53, -0x1p53};
  std::atomic<int> begun = 0;
  const auto finish = [&](int chunk) {
    *reinterpret_cast<double*>(sums.block(chunk)) = shares[chunk];
    sums.finish_block(chunk);
    ++begun;
    sums.finish_chunk(chunk, 0, 0, /*predecessors=*/chunk);
  };
  std::thread last(finish, 2), middle(finish, 1);
  while (begun < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for a thread that would not wait
  finish(0);
  last.join();
  middle.join();
  sums.write();
  EXPECT_EQ(gradient.data<double>()[0], 0);
}

}  // namespace
}  // namespace qkv
