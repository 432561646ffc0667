// What the passes of derivatives refuse before any work.
#include "attention/tangent/attention_tangents_testing.h"
#include "io/files_for_test.h"

namespace qkv {
namespace {

using testing::filled;

// Every argument may be exchanged.
struct DerivativeCall {
  testing::MovingArrays a{{2, 5, 8}, {1, 6, 8}, 3};
  Tensor out = filled({2, 5, 3}, 1), log_sum_exp = filled({2, 5}, 1);
  Tensor query = filled({2, 5, 8}, 7), key = filled({1, 6, 8}, 7), value = filled({1, 6, 3}, 7);
  Tensor of_out = filled({2, 5, 3}, 7), of_parameter{};
  Tensor parameter{}, w = filled({7, 8}, 1), factors = filled({7}, 1);
  AttentionOptions options{};
  AttentionGradients wish{};

  void backward() {
    if (!wish.key) wish.key = key;
    wish.query = query, wish.value = value;
    attention_backward(a.q, a.k, a.v, out, log_sum_exp, a.grad_out, options, wish);
  }
  void jvp() { attention_jvp(a.q, a.k, a.v, out, log_sum_exp, a.tangents(), options, {.out = of_out}); }
  void double_backward() {
    attention_double_backward(a.q, a.k, a.v, out, log_sum_exp, a.grad_out, a.tangents(), options,
                              {.query = query, .key = key, .value = value, .grad_out = of_out});
  }

  // The gradient of a parameter goes here.
  MutableTensorView place(const Dims& shape, Dtype dtype = Dtype::f32) {
    return of_parameter = filled(shape, 7, dtype);
  }
  void ask_for_bias(const Dims& shape, Dtype dtype = Dtype::f32) {
    options.bias = Bias::view(parameter = filled({2, 5, 6}, 1));
    wish.bias = {place(shape, dtype)};
  }
  void set_additive() { options.score = Score::additive(w, w, factors); }
  void set_bilinear() { options.score = Score::bilinear(parameter = filled({8, 8}, 1)); }
};

using C = DerivativeCall;

// A part of the message, and what is changed in a call that is right.
using RefusedCalls = std::vector<std::pair<const char*, std::function<void(C&)>>>;

void set_logit_function(C& c) {
  c.options.logit_function = logit_function([](auto logit, const Pair&) { return logit; });
}

const RefusedCalls kOfGradients = {
    {"out must be [2, 5, 3], got [2, 5, 8]", [](C& c) { c.out = filled({2, 5, 8}, 1); }},
    {"grad_out must be [2, 5, 3], got [2, 6, 3]", [](C& c) { c.a.grad_out = filled({2, 6, 3}, 1); }},
    {"log_sum_exp must be [2, 5], got [2, 6]", [](C& c) { c.log_sum_exp = filled({2, 6}, 1); }},
    {"log_sum_exp is f64; it must be f32", [](C& c) { c.log_sum_exp = filled({2, 5}, 1, Dtype::f64); }},
    {"out and grad_out must be f32 or f32, got bf16", [](C& c) { c.a.grad_out = filled({2, 5, 3}, 1, Dtype::bf16); }},
    {"the gradient of query must be [2, 5, 8], got [2, 5, 3]", [](C& c) { c.query = filled({2, 5, 3}, 7); }},
    {"the gradient of key must be [1, 6, 8], got [2, 6, 8]", [](C& c) { c.key = filled({2, 6, 8}, 7); }},
    {"the gradient of value must be [1, 6, 3], got [1, 6, 8]", [](C& c) { c.value = filled({1, 6, 8}, 7); }},
    {"the gradient of value must be f32 or f32, got f64", [](C& c) { c.value = convert(c.value, Dtype::f64); }},
    {"the gradient of key repeats elements (stride 0)",
     [](C& c) { c.wish.key = {c.key.view().bytes(), Dtype::f32, {1, 6, 8}, {48, 0, 1}}; }},
    {"key has head_dim 9, query has 8", [](C& c) { c.a.k = filled({1, 6, 9}, 1); }},
    {"threads must be 0 (default) or more", [](C& c) { c.options.threads = -1; }},
    {"attention_backward: logit functions are not supported, they have no derivative", set_logit_function},
    {"attention_backward: precision must be exact", [](C& c) { c.options.precision = Precision::reduced; }},
    {"attention_backward: empty_rows must be zero", [](C& c) { c.options.empty_rows = EmptyRows::nan; }},
    {"score w must be [8, 8], got [7, 8]", [](C& c) { c.options.score = Score::bilinear(c.w); }},
    {"attention: 2 gradients of bias views were requested, there are 1 views",
     [](C& c) { c.ask_for_bias({2, 5, 6}), c.wish.bias.emplace_back(); }},
    {"attention: the gradient of a bias must be [2, 5, 6], got [1, 5, 6]", [](C& c) { c.ask_for_bias({1, 5, 6}); }},
    {"attention: the gradient of a bias is f64; it must be f32", [](C& c) { c.ask_for_bias({2, 5, 6}, Dtype::f64); }},
    {"attention: the gradient of a bias repeats elements (stride 0); an output cannot",
     [](C& c) {
       c.ask_for_bias({2, 5, 6});
       c.wish.bias = {{c.of_parameter.view().bytes(), Dtype::f32, {2, 5, 6}, {0, 6, 1}}};
     }},
    {"attention: the gradient of score w_key must be [7, 8], got [2, 5, 8]",
     [](C& c) { c.set_additive(), c.wish.score.w_key = c.place({2, 5, 8}); }},
    {"attention: the gradient of score v is f64; it must be f32",
     [](C& c) { c.set_additive(), c.wish.score.v = c.place({7}, Dtype::f64); }},
    {"attention: the gradient of score v is not a parameter of this score",
     [](C& c) { c.set_bilinear(), c.wish.score.v = c.place({7}); }}};

const RefusedCalls kOfTangents = {
    {"the tangent of query must be [2, 5, 8], got [2, 5, 3]", [](C& c) { c.a.tq = filled({2, 5, 3}, 1); }},
    {"the tangent of key must be [1, 6, 8], got [2, 6, 8]", [](C& c) { c.a.tk = filled({2, 6, 8}, 1); }},
    {"the tangent of value is f64; for f32 inputs it must be f32", [](C& c) { c.a.tv = convert(c.a.tv, Dtype::f64); }},
    {"attention_jvp: query has type bf16; it must be f32 or f64",
     [](C& c) {
       for (Tensor* x : {&c.a.q, &c.a.k, &c.a.v}) *x = convert(*x, Dtype::bf16);
     }},
    {"attention_jvp: soft_cap must be 0", [](C& c) { c.options.soft_cap = 3; }},
    {"attention_jvp: dropout must be off", [](C& c) { c.options.dropout.p = 0.5; }},
    {"attention_jvp: the score must be dot or scaled dot", [](C& c) { c.set_bilinear(); }},
    {"attention_jvp: logit functions are not supported", set_logit_function},
    {"attention_jvp: precision must be exact", [](C& c) { c.options.precision = Precision::reduced; }},
    {"attention_jvp: empty_rows must be zero", [](C& c) { c.options.empty_rows = EmptyRows::nan; }},
    {"Shaw's table is not supported", [](C& c) { c.options.bias = Bias::shaw(c.w); }},
    {"threads must be 0", [](C& c) { c.options.threads = -1; }}};

const RefusedCalls kOfSecondGradients = {
    {"grad_out must be [2, 5, 3], got [2, 5, 8]", [](C& c) { c.a.grad_out = filled({2, 5, 8}, 1); }},
    {"the tangent of key must be [1, 6, 8], got [2, 6, 8]", [](C& c) { c.a.tk = filled({2, 6, 8}, 1); }},
    {"the gradient of value must be [1, 6, 3], got [2, 6, 3]", [](C& c) { c.value = filled({2, 6, 3}, 7); }},
    {"the gradient of query is f64; for f32 inputs it must be f32",
     [](C& c) { c.query = convert(c.query, Dtype::f64); }},
    {"the gradient of grad_out must be [2, 5, 3], got [2, 4, 3]", [](C& c) { c.of_out = filled({2, 4, 3}, 7); }},
    {"attention_double_backward: soft_cap must be 0", [](C& c) { c.options.soft_cap = 3; }},
    {"attention_double_backward: dropout must be off", [](C& c) { c.options.dropout.p = 0.5; }}};

void expect_refused(const RefusedCalls& calls, void (C::*pass)()) {
  for (const auto& [part, change] : calls) {
    SCOPED_TRACE(part);
    DerivativeCall call;
    change(call);
    const std::string message = test::message_of<std::invalid_argument>([&] { (call.*pass)(); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    for (const Tensor* place : {&call.query, &call.key, &call.value, &call.of_out, &call.of_parameter}) {
      for (const double number : testing::values(*place)) ASSERT_EQ(number, 7);
    }
  }
}

TEST(AttentionDerivativesArguments, EachRuleIsNamed) {
  expect_refused(kOfGradients, &C::backward);
  expect_refused(kOfTangents, &C::jvp);
  expect_refused(kOfSecondGradients, &C::double_backward);
  DerivativeCall unchanged;
  unchanged.jvp();
  unchanged.double_backward();
  unchanged.set_additive();
  unchanged.ask_for_bias({2, 5, 6});
  unchanged.backward();
  unchanged.wish.bias.clear();
  unchanged.wish.score.w_query = unchanged.place({7, 8});
  unchanged.backward();
}

}  // namespace
}  // namespace qkv
