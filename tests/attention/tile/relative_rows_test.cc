// Shaw's table: torch's numbers and gradients (golden/relative_table/shaw.py), one query like many, the same bits for
// any threads, and what is refused. Random combinations: attention_grid_test.cc and attention_backward_grid_test.cc.
#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "qkv/files.h"
#include "reference/attention.h"

namespace qkv {
namespace {

const char* const kCases[] = {"square", "causal", "one"};

const SafeTensors& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/relative_table/shaw.safetensors");
  return file;
}

AttentionOptions options_of(const std::string& name, const TensorView& table) {
  AttentionOptions options{.bias = Bias::table(RelativeTable::shaw(table))};
  if (name != "square") options.mask = Mask::causal(Align::bottom_right);
  return options;
}

struct Gradients {
  Tensor q, k, v, table;
};

Gradients differentiate(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& grad_out,
                        const AttentionOptions& options) {
  const TensorView values = options.bias.tables()[0].values();
  Tensor out = Tensor::zeros(grad_out.shape(), q.dtype()),
         log_sum_exp = Tensor::zeros({1, q.size(1), q.size(2)}, q.dtype());
  attention(q, k, v, out, options, {.log_sum_exp = log_sum_exp});
  Gradients g{Tensor::zeros(q.shape(), q.dtype()), Tensor::zeros(k.shape(), q.dtype()),
              Tensor::zeros(v.shape(), q.dtype()), Tensor::zeros(values.shape(), q.dtype())};
  attention_backward(q, k, v, out, log_sum_exp, grad_out, options,
                     {.query = g.q, .key = g.k, .value = g.v, .tables = {g.table}});
  return g;
}

TEST(RelativeRowsReference, LikeTorch) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const auto of = [&](const char* part) { return golden().tensors.at(name + part).view(); };
    const AttentionOptions options = options_of(name, of(".table"));
    EXPECT_LE(testing::difference(reference::attention(of(".q"), of(".k"), of(".v"), options).out, of(".out")), 1e-14);
    const auto gradients = reference::attention_backward(of(".q"), of(".k"), of(".v"), of(".grad_out"), options);
    EXPECT_LE(testing::difference(gradients.query, of(".grad_q")), 1e-13);
    EXPECT_LE(testing::difference(gradients.key, of(".grad_k")), 1e-13);
    EXPECT_LE(testing::difference(gradients.value, of(".grad_v")), 1e-13);
    EXPECT_LE(testing::difference(gradients.tables[0], of(".grad_table")), 1e-12);
  }
}

QKV_ON_EACH_TARGET(RelativeRows);

TEST_P(RelativeRows, LikeTorch) {
  for (const auto& [dtype, tolerance] : {std::pair(Dtype::f64, 1e-13), {Dtype::f32, 1e-5}}) {
    for (const std::string name : kCases) {
      SCOPED_TRACE(name);
      const auto of = [&](const char* part) { return convert(golden().tensors.at(name + part), dtype); };
      const Tensor q = of(".q"), k = of(".k"), v = of(".v"), table = of(".table"), grad_out = of(".grad_out");
      const AttentionOptions options = options_of(name, table);
      EXPECT_LE(testing::difference(attention(q, k, v, options), of(".out")), tolerance);
      const Gradients gradients = differentiate(q, k, v, grad_out, options);
      EXPECT_LE(testing::difference(gradients.q, of(".grad_q")), tolerance);
      EXPECT_LE(testing::difference(gradients.k, of(".grad_k")), tolerance);
      EXPECT_LE(testing::difference(gradients.v, of(".grad_v")), tolerance);
      EXPECT_LE(testing::difference(gradients.table, of(".grad_table")), 10 * tolerance);
    }
  }
}

TEST_P(RelativeRows, TheSameBitsForAnyThreadsAndNeighbours) {
  Random random(1);
  const Tensor q = testing::normal(random, {2, 3, 130, 24}), k = testing::normal(random, {2, 3, 1100, 24});
  const Tensor v = testing::normal(random, {2, 3, 1100, 24}), grad_out = testing::normal(random, {2, 3, 130, 24});
  const Tensor table = testing::normal(random, {2 * 60 + 1, 24}, Dtype::f32, 0.2);
  AttentionOptions options{
      .mask = Mask::causal(Align::bottom_right), .bias = Bias::table(RelativeTable::shaw(table)), .threads = 1};
  const Tensor out = attention(q, k, v, options);
  // The last queries alone.
  const Tensor last = attention(q.view().slice(2, 101, 130), k, v, options);
  EXPECT_TRUE(testing::same_bits(last, Tensor::copy(out.view().slice(2, 101, 130))));
  const auto of_first = [](const Tensor& tensor) { return tensor.view().slice(0, 0, 1); };
  const auto gradients_of = [&] {
    return differentiate(of_first(q), of_first(k), of_first(v), of_first(grad_out), options);
  };
  const Gradients gradients = gradients_of();
  for (const int threads : {2, 3, 4, 7, 16}) {
    options.threads = threads;
    EXPECT_TRUE(testing::same_bits(attention(q, k, v, options), out)) << threads;
    const Gradients again = gradients_of();
    EXPECT_TRUE(testing::same_bits(again.q, gradients.q)) << threads;
    EXPECT_TRUE(testing::same_bits(again.table, gradients.table)) << threads;
  }
}

TEST(RelativeRowsArguments, Refused) {
  const Tensor q = Tensor::zeros({1, 2, 5, 8}), table = Tensor::zeros({7, 8}), other = Tensor::zeros({7, 6}),
               even = Tensor::zeros({6, 8}), wide = Tensor::zeros({2 * 513 + 1, 8}), w = Tensor::zeros({8, 8});
  const auto message = [](const auto& call) { return test::message_of<std::invalid_argument>(call); };
  const auto attend = [&](const Bias& bias, const Score& score = Score::scaled_dot()) {
    return message([&] { attention(q, q, q, {.bias = bias, .score = score}); });
  };
  const Bias bias = Bias::table(RelativeTable::shaw(table));
  EXPECT_NO_THROW(attention(q, q, q, {.bias = bias}));
  EXPECT_NE(attend(bias + bias).find("at most one table of Shaw's"), std::string::npos);
  EXPECT_NE(attend(Bias::table(RelativeTable::shaw(other))).find("[7, 6] must have rows of head_dim 8"),
            std::string::npos);
  EXPECT_NE(attend(bias, Score::bilinear(w)).find("score dot or scaled dot"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::shaw(even); }).find("2 n + 1 rows, n at most 512"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::shaw(wide); }).find("2 n + 1 rows, n at most 512"), std::string::npos);
  const Tensor sums = Tensor::zeros({1, 2, 5});
  Tensor moved = Tensor::zeros(q.shape());
  EXPECT_NE(message([&] {
              attention_jvp(q, q, q, q, sums, {.query = q}, {.bias = bias}, {.out = moved});
            }).find("Shaw's table is not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
