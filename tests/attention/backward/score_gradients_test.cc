// Gradients through scores with parameters: of q, k, v and of the parameters, against the double reference.
#include "attention/attention_case.h"
#include "attention/backward/attention_backward_testing.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

using testing::filled;
using testing::kNan;
using testing::normal;

// A call with gradients of everything.
struct Call {
  Tensor q, k, v, grad_out;
  Tensor w_query{}, w_key{}, factors{};  // of the score
  AttentionOptions options{};

  Call(Score::Kind kind, Dtype dtype, const Dims& query, const Dims& key, std::int64_t hidden = 7) {
    Random random(1);
    const Dtype wide = testing::accumulation_of(dtype);
    const std::int64_t q_dim = query[query.size() - 1], k_dim = key[key.size() - 1];
    Dims value = key, out = query;
    value[value.size() - 1] = out[out.size() - 1] = 6;
    q = normal(random, query, dtype), k = normal(random, key, dtype);
    v = normal(random, value, dtype), grad_out = normal(random, out, dtype);
    const double small = 1 / std::sqrt(static_cast<double>(q_dim));
    if (kind == Score::Kind::bilinear) {
      w_query = normal(random, {q_dim, k_dim}, wide, small / std::sqrt(static_cast<double>(k_dim)));
      options.score = Score::bilinear(w_query);
    } else if (kind == Score::Kind::concat) {
      w_query = normal(random, {hidden, q_dim + k_dim}, wide, small), factors = normal(random, {hidden}, wide);
      options.score = Score::concat(w_query, factors);
    } else {
      w_query = normal(random, {hidden, q_dim}, wide, small), w_key = normal(random, {hidden, k_dim}, wide, small);
      factors = normal(random, {hidden}, wide);
      options.score = Score::additive(w_query, w_key, factors);
    }
  }

  struct Result {
    testing::Gradients inputs;
    Tensor w_query{}, w_key{}, factors{};
  };

  // In tensors that held NaN.
  Result gradients(std::optional<Dtype> dtype = std::nullopt) const {
    const testing::Forward kept = testing::forward(q, k, v, options);
    const auto place = [&](const Tensor& like) { return filled(like.shape(), kNan, dtype.value_or(like.dtype())); };
    Result result{{place(q), place(k), place(v)}};
    ScoreGradients score;
    const auto parameter = [](const Tensor& like, Tensor& gradient, MutableTensorView& view) {
      if (like.element_count() == 0) return;
      gradient = filled(like.shape(), kNan, like.dtype());
      view = gradient;
    };
    parameter(w_query, result.w_query, score.w_query);
    parameter(w_key, result.w_key, score.w_key);
    parameter(factors, result.factors, score.v);
    attention_backward(
        q, k, v, kept.out, kept.log_sum_exp, grad_out, options,
        {.query = result.inputs.query, .key = result.inputs.key, .value = result.inputs.value, .score = score});
    return result;
  }

  // `error`: of a sum of numbers near 1.
  void expect_like_reference(double error, std::optional<Dtype> dtype = std::nullopt) const {
    const reference::AttentionGradients exact = reference::attention_backward(q, k, v, grad_out, options);
    const Result got = gradients(dtype);
    const auto check = [&](const char* name, const Tensor& own, const Tensor& wanted) {
      ASSERT_EQ(own.element_count(), wanted.element_count()) << name;
      EXPECT_LE(testing::difference(own, wanted), error * std::max(1.0, testing::largest(wanted))) << name;
    };
    check("queries", got.inputs.query, exact.query);
    check("keys", got.inputs.key, exact.key);
    check("values", got.inputs.value, exact.value);
    check("w_query", got.w_query, exact.score.w_query);
    check("w_key", got.w_key, exact.score.w_key);
    check("v", got.factors, exact.score.v);
  }
};

void expect_same(const Call::Result& a, const Call::Result& b) {
  testing::expect_same(a.inputs, b.inputs);
  EXPECT_TRUE(testing::same_bits(a.w_query, b.w_query));
  EXPECT_TRUE(testing::same_bits(a.w_key, b.w_key));
  EXPECT_TRUE(testing::same_bits(a.factors, b.factors));
}

constexpr Score::Kind kKinds[] = {Score::Kind::additive, Score::Kind::concat, Score::Kind::bilinear};

// Sums of some hundred products, in f32 or f64; halves also round the output that is subtracted and the gradients.
double error_of(Dtype dtype) { return dtype == Dtype::f64 ? 1e-13 : 1e-5 + 8 * testing::rounding(dtype); }

QKV_ON_EACH_TARGET(ScoreGradientsKernel);

TEST_P(ScoreGradientsKernel, EveryScoreInEveryType) {
  for (const Score::Kind kind : kKinds) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " score " + std::to_string(static_cast<int>(kind)));
      Call call(kind, dtype, {1, 4, 53, 8}, {1, 2, 70, 5});
      call.expect_like_reference(error_of(dtype));
    }
  }
}

TEST_P(ScoreGradientsKernel, WideGradientsOfHalves) {
  for (const Score::Kind kind : kKinds)
    Call(kind, Dtype::bf16, {20, 8}, {30, 5}).expect_like_reference(0.03, Dtype::f32);
}

TEST_P(ScoreGradientsKernel, MasksCapBiasAndDropout) {
  Random random(2);
  const Tensor visible = testing::coin_flips(random, {2, 1, 20, 130}, 0.6),
               lengths = Tensor::of<std::int32_t>({2}, {90, 0});
  const Tensor bias = normal(random, {20, 130}), slopes = Tensor::of<float>({2}, {0.1f, -0.2f});
  for (const Score::Kind kind : kKinds) {
    for (const Mask& mask : {Mask::boolean(visible), Mask::causal(Align::bottom_right), Mask::lengths(lengths)}) {
      Call call(kind, Dtype::f32, {2, 2, 20, 16}, {2, 1, 130, 9}, 20);
      call.options.mask = mask;
      call.options.bias = Bias::view(bias) + Bias::alibi(slopes);
      call.options.scale = -0.8;
      call.options.soft_cap = 2;
      call.options.dropout = {.p = 0.3, .seed = 4};
      call.expect_like_reference(2e-5);
    }
  }
}

TEST_P(ScoreGradientsKernel, Packed) {
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 60, 60, 71}),
               k_offsets = Tensor::of<std::int32_t>({4}, {0, 9, 40, 110});
  for (const Score::Kind kind : kKinds) {
    Call call(kind, Dtype::f64, {71, 2, 8}, {110, 1, 5});
    call.options.offsets_query = q_offsets;
    call.options.offsets_key = k_offsets;
    call.expect_like_reference(1e-13);
  }
}

// What a mask hides reaches no parameter, even if it holds NaN.
TEST_P(ScoreGradientsKernel, HiddenKeysAndRowsWithoutKeysTakeNoPart) {
  for (const Score::Kind kind : kKinds) {
    for (const double cap : {0.0, 2.0}) {
      Call clean(kind, Dtype::f32, {1, 2, 20, 8}, {1, 2, 70, 5});
      Tensor visible = filled({20, 70}, 1, Dtype::u8);
      for (std::int64_t i = 0; i < 20; ++i) visible.view().at<std::uint8_t>({i, 33}) = 0;
      for (std::int64_t j = 0; j < 70; ++j) visible.view().at<std::uint8_t>({11, j}) = 0;
      clean.options.mask = Mask::boolean(visible);
      clean.options.soft_cap = cap;
      Call poisoned = clean;
      poisoned.k.view().at<float>({0, 1, 33, 2}) = std::numeric_limits<float>::quiet_NaN();
      poisoned.v.view().at<float>({0, 1, 33, 2}) = std::numeric_limits<float>::quiet_NaN();
      poisoned.q.view().at<float>({0, 0, 11, 3}) = std::numeric_limits<float>::infinity();
      expect_same(clean.gradients(), poisoned.gradients());
      clean.expect_like_reference(2e-5);
    }
  }
}

TEST_P(ScoreGradientsKernel, AnyNumberOfThreads) {
  for (const Score::Kind kind : kKinds) {
    Call call(kind, Dtype::f32, {1, 2, 60, 8}, {1, 1, 2100, 8}, 5);
    call.options.threads = 1;
    const Call::Result one = call.gradients();
    for (const int threads : {2, 3, 4, 7, 16}) {
      SCOPED_TRACE(threads);
      call.options.threads = threads;
      expect_same(one, call.gradients());
    }
  }
}

TEST_P(ScoreGradientsKernel, EmptySizes) {
  for (const Score::Kind kind : kKinds) {
    for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {  // [batch, heads, q_len, k_len]
      const Call::Result got =
          Call(kind, Dtype::f32, {size[0], size[1], size[2], 8}, {size[0], 1, size[3], 8}).gradients();
      for (const Tensor* tensor :
           {&got.inputs.query, &got.inputs.key, &got.inputs.value, &got.w_query, &got.w_key, &got.factors}) {
        for (const double number : testing::values(*tensor)) ASSERT_EQ(number, 0) << to_string(size);
      }
    }
  }
}

TEST(ScoreGradientsArguments, EachRuleIsNamed) {
  const Call call(Score::Kind::additive, Dtype::f32, {1, 2, 6, 8}, {1, 2, 5, 8});
  const Call bilinear(Score::Kind::bilinear, Dtype::f32, {1, 2, 6, 8}, {1, 2, 5, 8});
  Tensor query = filled({1, 2, 6, 8}, 7), other = filled({1, 2, 6, 8}, 7), w_query = filled({7, 8}, 7),
         wide = filled({7}, 7, Dtype::f64);
  const auto message = [&](const Call& of, const AttentionGradients& gradients) -> std::string {
    const testing::Forward kept = testing::forward(of.q, of.k, of.v, of.options);
    try {
      attention_backward(of.q, of.k, of.v, kept.out, kept.log_sum_exp, of.grad_out, of.options, gradients);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(call, {.query = query, .score = {.w_key = query}}),
            "attention: the gradient of score w_key must be [7, 8], got [1, 2, 6, 8]");
  EXPECT_EQ(message(call, {.query = query, .score = {.v = wide}}),
            "attention: the gradient of score v is f64; it must be f32");
  EXPECT_EQ(message(bilinear, {.query = query, .score = {.v = wide}}),
            "attention: the gradient of score v is not a parameter of this score");
  EXPECT_EQ(message(bilinear, {.query = query, .value = other}),
            "attention: the gradient of value must be [1, 2, 5, 6], got [1, 2, 6, 8]");
  for (const Tensor* tensor : {&query, &w_query, &wide}) {
    for (const double number : testing::values(*tensor)) ASSERT_EQ(number, 7);
  }
  EXPECT_EQ(message(call, {.query = query, .score = {.w_query = w_query}}), "accepted");
}

}  // namespace
}  // namespace qkv
