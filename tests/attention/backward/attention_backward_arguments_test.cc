// What may be left out, what is refused before any work, and how a call is ended early.
#include <functional>
#include <stop_token>

#include "attention/backward/attention_backward_testing.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using testing::filled;

struct Call {
  Tensor q = filled({2, 4, 5, 8}, 1), k = filled({2, 2, 6, 8}, 1), v = filled({2, 2, 6, 3}, 1);
  Tensor out = filled({2, 4, 5, 3}, 1), log_sum_exp = filled({2, 4, 5}, 1), grad_out = filled({2, 4, 5, 3}, 1);
  Tensor query = filled({2, 4, 5, 8}, 7), key = filled({2, 2, 6, 8}, 7), value = filled({2, 2, 6, 3}, 7);
  AttentionOptions options{};
  Tensor kept{};

  void run() {
    attention_backward(q, k, v, out, log_sum_exp, grad_out, options, {.query = query, .key = key, .value = value});
  }
};

struct Rule {
  const char* fragment;
  std::function<void(Call&)> break_it;
};

const Rule kRules[] = {
    {"out must be [2, 4, 5, 3], got [2, 4, 5, 8]", [](Call& c) { c.out = filled({2, 4, 5, 8}, 1); }},
    {"grad_out must be [2, 4, 5, 3], got [2, 4, 6, 3]", [](Call& c) { c.grad_out = filled({2, 4, 6, 3}, 1); }},
    {"log_sum_exp must be [2, 4, 5], got [2, 4, 6]", [](Call& c) { c.log_sum_exp = filled({2, 4, 6}, 1); }},
    {"log_sum_exp is f64; it must be f32", [](Call& c) { c.log_sum_exp = filled({2, 4, 5}, 1, Dtype::f64); }},
    {"out and grad_out must be f32 or f32, got bf16", [](Call& c) { c.grad_out = convert(c.grad_out, Dtype::bf16); }},
    {"the gradient of query must be [2, 4, 5, 8], got [2, 4, 5, 3]",
     [](Call& c) { c.query = filled({2, 4, 5, 3}, 7); }},
    {"the gradient of key must be [2, 2, 6, 8], got [2, 4, 6, 8]", [](Call& c) { c.key = filled({2, 4, 6, 8}, 7); }},
    {"the gradient of value must be [2, 2, 6, 3], got [2, 2, 6, 8]",
     [](Call& c) { c.value = filled({2, 2, 6, 8}, 7); }},
    {"the gradient of value must be f32 or f32, got f64",
     [](Call& c) { c.value = filled({2, 2, 6, 3}, 7, Dtype::f64); }},
    {"key has head_dim 9, query has 8", [](Call& c) { c.k = filled({2, 2, 6, 9}, 1); }},
    {"threads must be 0 (default) or more", [](Call& c) { c.options.threads = -1; }},
    {"score w must be [8, 8], got [8, 7]",
     [](Call& c) { c.options.score = Score::bilinear(c.kept = filled({8, 7}, 1)); }},
};

TEST(AttentionBackwardArguments, EachRuleIsNamed) {
  for (const Rule& rule : kRules) {
    SCOPED_TRACE(rule.fragment);
    Call call;
    rule.break_it(call);
    try {
      call.run();
      ADD_FAILURE() << "was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(rule.fragment), std::string::npos) << error.what();
    }
    for (const Tensor* gradient : {&call.query, &call.key, &call.value}) {
      for (const double number : testing::values(*gradient)) ASSERT_EQ(number, 7);
    }
  }
  Call().run();  // the unbroken call
}

TEST(AttentionBackwardArguments, AGradientThatRepeatsElementsIsRefused) {
  Call c;
  const MutableTensorView repeated(c.key.view().bytes(), Dtype::f32, {2, 2, 6, 8}, {0, 48, 8, 1});
  EXPECT_THROW(attention_backward(c.q, c.k, c.v, c.out, c.log_sum_exp, c.grad_out, {}, {.key = repeated}),
               std::invalid_argument);
}

QKV_ON_EACH_TARGET(AttentionBackwardCall);

TEST_P(AttentionBackwardCall, EachGradientAloneHasTheBitsOfAllTogether) {
  Random random(1);
  const Tensor q = testing::normal(random, {2, 70, 16}), k = testing::normal(random, {1, 1100, 16});
  const Tensor v = testing::normal(random, {1, 1100, 8}), grad_out = testing::normal(random, {2, 70, 8});
  const testing::Gradients all = testing::backward(q, k, v, grad_out);
  const testing::Forward kept = testing::forward(q, k, v, {});
  testing::Gradients alone{filled(q.shape(), 7), filled(k.shape(), 7), filled(v.shape(), 7)};
  const auto differentiate = [&](const AttentionGradients& wish) {
    attention_backward(q, k, v, kept.out, kept.log_sum_exp, grad_out, {.threads = 2}, wish);
  };
  differentiate({.query = alone.query});
  differentiate({.key = alone.key});
  differentiate({.value = alone.value});
  differentiate({});
  testing::expect_same(all, alone);
}

TEST_P(AttentionBackwardCall, EmptySizes) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 0, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {
      // [batch, heads, q_len, k_len]
      const Tensor q = filled({size[0], size[1], size[2], 8}, 1, dtype), k = filled({size[0], 1, size[3], 8}, 1, dtype);
      const testing::Gradients gradients = testing::backward(q, k, k, q);
      for (const Tensor* gradient : {&gradients.query, &gradients.key, &gradients.value}) {
        for (const double number : testing::values(*gradient)) ASSERT_EQ(number, 0) << to_string(size);
      }
    }
  }
}

TEST_P(AttentionBackwardCall, StopToken) {
  Random random(2);
  const Tensor q = testing::normal(random, {1, 2, 2100, 16});
  std::stop_source source;
  const testing::Forward kept = testing::forward(q, q, q, {});
  Tensor gradient = filled(q.shape(), 7);
  const AttentionOptions options{.threads = 3, .stop = source.get_token()};
  const auto differentiate = [&] {
    attention_backward(q, q, q, kept.out, kept.log_sum_exp, q, options, {.query = gradient});
  };
  differentiate();  // a token that asks for nothing changes nothing
  EXPECT_TRUE(testing::same_bits(gradient, testing::backward(q, q, q, q).query));
  source.request_stop();
  EXPECT_THROW(differentiate(), Stopped);
}

}  // namespace
}  // namespace qkv
