// Gradients of parameters: of bias views, over whatever dimensions one broadcasts along, and of scores, beside those of
// queries, keys and values. Tables, slopes, sinks, masks, caps, dropout, packed rows and empty sizes:
// derivatives_grid_test.cc; threads and the order of tasks: same_bits_test.cc.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "attention/backward/attention_backward_testing.h"
#include "attention/backward/parameter_sums.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::Gradients;
using testing::normal;

constexpr Score::Kind kKinds[] = {Score::Kind::scaled_dot, Score::Kind::additive, Score::Kind::concat,
                                  Score::Kind::bilinear};
constexpr Dtype kFloatingTypes[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

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

// Queries of size 8, values of size 6; keys of another size than queries where the score allows it.
struct ParameterCall {
  // Shapes without the sizes of the rows.
  ParameterCall(Score::Kind kind, Dtype type, const Dims& queries, const Dims& keys) : dtype(type) {
    constexpr std::int64_t kHidden = 20;
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
      options.score = Score::concat(draw({kHidden, 8 + k_dim}, small), draw({kHidden}));
    } else if (kind == Score::Kind::additive) {
      options.score = Score::additive(draw({kHidden, 8}, small), draw({kHidden, k_dim}, small), draw({kHidden}));
    }
  }

  TensorView draw(const Dims& shape, double spread = 1) {
    return parameters.emplace_back(normal(random, shape, testing::accumulation_of(dtype), spread));
  }
  void set_biases(const std::vector<Dims>& shapes) {
    options.bias = {};
    for (const Dims& shape : shapes) options.bias = options.bias + Bias::view(draw(shape));
  }
  Gradients gradients() const { return testing::backward(q, k, v, grad_out, options); }

  // Within some hundred roundings, of f32 or f64, of a sum of numbers near 1. Halves also round the output that is
  // subtracted, and the gradients.
  void expect_like_reference() const {
    const double of_sum = dtype == Dtype::f64 ? 2e-14 : 1e-5 + 8 * testing::rounding(dtype);
    const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, options);
    const Gradients got = gradients();
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
    for (const Dtype dtype : kFloatingTypes) {
      SCOPED_TRACE(fmt::format("{} score {}", name_of(dtype), static_cast<int>(kind)));
      ParameterCall(kind, dtype, {1, 4, 53}, {1, 2, 70}).expect_like_reference();
      ParameterCall(kind, dtype, {5}, {1100}).expect_like_reference();
      if (kind != Score::Kind::scaled_dot) continue;
      ParameterCall call(kind, dtype, {2, 4, 53}, {2, 2, 70});
      for (const std::vector<Dims>& shapes : broadcast_shapes({2, 4, 53, 70})) {
        call.set_biases(shapes);
        call.expect_like_reference();
      }
    }
  }
}

TEST_P(ParameterGradients, PlacesWithStridesAndPlacesNotGiven) {
  ParameterCall call(Score::Kind::scaled_dot, Dtype::f32, {1, 2, 20}, {1, 2, 40});
  call.set_biases({{2, 20, 40}, {20, 40}});
  Tensor turned = testing::filled({40, 20}, testing::kNan);
  const MutableTensorView place = turned.view().transpose(0, 1);
  const testing::Forward kept = testing::forward(call.q, call.k, call.v, call.options);
  attention_backward(call.q, call.k, call.v, kept.out, kept.log_sum_exp, call.grad_out, call.options,
                     {.bias = {{}, place}});
  EXPECT_TRUE(testing::same_bits(place, call.gradients().bias[1]));
}

// Shares of chunks whose sum in order is 0, and in any other order is not.
TEST(ParameterSums, ChunksWaitForTheirTurn) {
  const Tensor q = Tensor::zeros({1, 3, 4}, Dtype::f64), k = Tensor::zeros({1, 3000, 4}, Dtype::f64);
  const Tensor table = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionOptions options{.bias = Bias::table(RelativeTable::clipped(table))};
  Tensor gradient = Tensor::zeros({1, 1}, Dtype::f64);
  const AttentionGradients gradients{.tables = {gradient.view()}};
  const AttentionCall call(q, k, k, options);
  ParameterSums sums(call, options, gradients);
  sums.begin(/*threads=*/3, /*blocks=*/1);
  const double shares[] = {1, 0x1p53, -0x1p53};
  std::atomic<int> begun = 0;
  const auto finish = [&](int chunk) {
    *reinterpret_cast<double*>(sums.share(chunk)) = shares[chunk];
    sums.finish_share(chunk);
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
