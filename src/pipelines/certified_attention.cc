// The cases of attention and of rows that certify() computes.
#include <fmt/format.h>

#include <span>
#include <vector>

#include "ops/rowwise/row_kernels.h"
#include "pipelines/certified_cases.h"
#include "pipelines/number_digest.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::inline pipelines {

Tensor normal_numbers(Random& random, const Dims& shape, Dtype dtype, double spread) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) tensor.data<double>()[i] = spread * random.normal();
  return convert(tensor, dtype);
}

namespace {

struct CertifiedShape {
  std::int64_t heads, q_len, k_len, head_dim;
};

// Additional options of the n-th case.
AttentionOptions certified_options(int n, const Tensor& numbers, const Tensor& table) {
  AttentionOptions options;
  options.threads = 1 + n % 3;
  if (n % 6 == 1) options.mask = Mask::causal();
  if (n % 6 == 2) options.mask = Mask::window(9, 5);
  if (n % 6 == 3) options.bias = Bias::alibi(numbers);
  if (n % 6 == 4) options.soft_cap = 3;
  if (n % 6 == 5) options.bias = Bias::clipped(table);
  if (n % 4 == 2) options.sinks = numbers;
  return options;
}

class CertifiedCall {
 public:
  CertifiedCall(Random& random, const CertifiedShape& shape, Dtype dtype)
      : q_(normal_numbers(random, {1, shape.heads, shape.q_len, shape.head_dim}, dtype)),
        k_(normal_numbers(random, {1, shape.heads, shape.k_len, shape.head_dim}, dtype)),
        v_(normal_numbers(random, k_.shape(), dtype)),
        grad_out_(normal_numbers(random, q_.shape(), dtype)),
        numbers_(normal_numbers(random, {shape.heads}, dtype)),
        table_(normal_numbers(random, {21, shape.heads}, dtype)),
        out_(Tensor::zeros(q_.shape(), dtype)),
        log_sum_exp_(Tensor::zeros({1, shape.heads, shape.q_len}, dtype)) {}

  void run(int n) {
    options_ = certified_options(n, numbers_, table_);
    attention(q_, k_, v_, out_, options_, {.log_sum_exp = log_sum_exp_});
  }

  std::uint64_t forward() const { return digest_of({out_, log_sum_exp_}); }

  std::uint64_t outputs() const {
    const Dims rows = log_sum_exp_.shape();
    Tensor out = like(q_), row = like(log_sum_exp_), entropy = like(log_sum_exp_),
           received = Tensor::zeros({1, rows[1], k_.size(2)}, q_.dtype()),
           weights = Tensor::zeros({1, rows[1], rows[2], k_.size(2)}, q_.dtype());
    attention(q_, k_, v_, out, options_,
              {.log_sum_exp = row, .weights = weights, .entropy = entropy, .received = received});
    return digest_of({entropy, received, weights});
  }

  std::uint64_t backward() const {
    Tensor query = like(q_), key = like(k_), value = like(v_), table = like(table_), numbers = like(numbers_);
    AttentionGradients gradients{.query = query, .key = key, .value = value};
    const bool has_table = !options_.bias.tables().empty(), has_slopes = !options_.bias.alibi_slopes().empty();
    Tensor sinks = like(numbers_);
    if (has_table) gradients.tables = {table};
    if (has_slopes) gradients.alibi_slopes = {numbers};
    if (options_.sinks) gradients.sinks = sinks;
    attention_backward(q_, k_, v_, out_, log_sum_exp_, grad_out_, options_, gradients);
    NumberDigest digest;
    for (const Tensor* each : {&query, &key, &value}) digest.add(*each);
    if (has_table) digest.add(table);
    if (has_slopes) digest.add(numbers);
    if (options_.sinks) digest.add(sinks);
    return digest.value();
  }

  // Along drawn tangents, without a soft cap, which has none.
  std::uint64_t tangents(Random& random) const {
    const auto along = [&](const Tensor& of) { return normal_numbers(random, of.shape(), of.dtype()); };
    const Tensor tq = along(q_), tk = along(k_), tv = along(v_), grad_out = along(q_);
    const AttentionTangents moving{.query = tq, .key = tk, .value = tv};
    AttentionOptions plain = options_;
    plain.soft_cap = 0;
    Tensor out = like(q_), row = like(log_sum_exp_), moved = like(q_), moved_row = like(log_sum_exp_), query = like(q_),
           key = like(k_), value = like(v_), second = like(q_);
    attention(q_, k_, v_, out, plain, {.log_sum_exp = row});
    attention_jvp(q_, k_, v_, out, row, moving, plain, {.out = moved, .log_sum_exp = moved_row});
    attention_double_backward(q_, k_, v_, out, row, grad_out, moving, plain,
                              {.query = query, .key = key, .value = value, .grad_out = second});
    return digest_of({moved, moved_row, query, key, value});
  }

 private:
  static Tensor like(const Tensor& other) { return Tensor::zeros(other.shape(), other.dtype()); }

  Tensor q_, k_, v_, grad_out_, numbers_, table_, out_, log_sum_exp_;
  AttentionOptions options_;
};

std::uint64_t single_query(Random& random, const CertifiedShape& shape, Dtype dtype, int n) {
  const Tensor q = normal_numbers(random, {1, shape.heads, 1, shape.head_dim}, dtype),
               k = normal_numbers(random, {1, 1, shape.k_len, shape.head_dim}, dtype),
               v = normal_numbers(random, k.shape(), dtype), numbers = normal_numbers(random, {shape.heads}, dtype),
               table = normal_numbers(random, {21, shape.heads}, dtype);
  Tensor out = Tensor::zeros(q.shape(), dtype), row = Tensor::zeros({1, shape.heads, 1}, dtype);
  attention(q, k, v, out, certified_options(n, numbers, table), {.log_sum_exp = row});
  return digest_of({out, row});
}

}  // namespace

void add_attention_cases(Digests& all) {
  constexpr CertifiedShape kShapes[] = {{2, 197, 197, 64}, {3, 33, 65, 7},     {2, 128, 128, 32},
                                        {1, 60, 1300, 40}, {1, 150, 2100, 16}, {2, 5, 300, 24}},
                           kSingle[] = {{4, 1, 2500, 128}, {1, 1, 700, 33}, {6, 1, 40, 64}};
  Random random(5);
  int n = 0;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const CertifiedShape& shape : kShapes) {
      const auto& [heads, q_len, k_len, size] = shape;
      const std::string name = fmt::format("{} {}x{}x{}x{}", name_of(dtype), heads, q_len, k_len, size);
      CertifiedCall call(random, shape, dtype);
      call.run(n);
      all["forward " + name] = call.forward();
      all["outputs " + name] = call.outputs();
      all["backward " + name] = call.backward();
      if (++n % 3 == 0) all["tangents " + name] = call.tangents(random);
    }
    for (const CertifiedShape& shape : kSingle) {
      all[fmt::format("single query {} {}x{}x{}", name_of(dtype), shape.heads, shape.k_len, shape.head_dim)] =
          single_query(random, shape, dtype, ++n);
    }
  }
}

void add_row_cases(Digests& all) {
  constexpr std::int64_t kCount = 10007, kClasses = 1003, kRows = 3;
  Random random(9);
  const std::pair<const char*, Activation> activations[] = {
      {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}, {"silu", Activation::silu}};
  for (const auto& [name, activation] : activations) {
    const Tensor x = normal_numbers(random, {kCount}, Dtype::f32, 4);
    Tensor y = Tensor::copy(x), gradient = Tensor::uninitialized({kCount});
    std::fill_n(gradient.data<float>(), kCount, 1.0f);
    activate(activation, y.data<float>(), kCount);
    activate_backward(activation, x.data<float>(), gradient.data<float>(), kCount);
    all[name] = digest_of({y, gradient});
  }
  Tensor logits = normal_numbers(random, {kRows, kClasses}, Dtype::f32, 3);
  NumberDigest digest;
  digest.add_number(log_sum_exp(std::span<const float>(logits.data<float>(), kClasses)));
  constexpr std::int32_t kWanted[kRows] = {5, 1002, 77};
  double loss[kRows], nll[kRows];
  cross_entropy_rows(CrossEntropyRows<float>{.logits = logits.data<float>(),
                                             .stride = kClasses,
                                             .rows = kRows,
                                             .classes = kClasses,
                                             .targets = kWanted,
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

}  // namespace qkv::inline pipelines
