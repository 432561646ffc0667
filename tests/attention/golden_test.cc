// Numbers of other systems, and the classic walk-through of self-attention: what the reference and the kernels must
// give. Files are those of tests/golden, each made by the script beside it.
#include "attention/tangent/attention_tangents_testing.h"
#include "qkv/files.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::Outcome;

// One case of a file: its tensors, in this type if one is given, and its options.
struct GoldenCase {
  GoldenCase(const SafeTensors& file, const std::string& name, std::optional<Dtype> dtype) {
    for (const auto& [key, tensor] : file.tensors) {
      if (!key.starts_with(name + ".")) continue;
      const Dtype own = tensor.dtype() == Dtype::boolean ? Dtype::boolean : dtype.value_or(tensor.dtype());
      parts.emplace(key.substr(name.size() + 1), convert(tensor, own));
    }
    const auto says = [&](const std::string& key) {
      const auto found = file.metadata.find(name + key);
      return found == file.metadata.end() ? "" : found->second;
    };
    if (says(".causal") == "1") options.mask = Mask::causal(Align::top_left);
    if (!says(".scale").empty()) options.scale = std::stod(says(".scale"));
    if (parts.contains("mask")) options.mask = options.mask & Mask::boolean(at("mask"));
    if (parts.contains("bias")) options.bias = Bias::view(at("bias"));
    if (name == "dropout") options.dropout = {.p = 0.25, .seed = 7};
    if (!parts.contains("table")) return;
    options.bias = Bias::shaw(at("table"));
    if (name != "square") options.mask = Mask::causal(Align::bottom_right);
  }
  GoldenCase(const GoldenCase&) = delete;

  const Tensor& at(const std::string& part) const { return parts.at(part); }

  std::map<std::string, Tensor> parts{};
  AttentionOptions options{};  // of views into the parts
};

using Results = std::vector<Tensor>;
using Call = Results (*)(const GoldenCase&);

Results reference_outputs(const GoldenCase& c) {
  const reference::AttentionResult result = reference::attention(c.at("q"), c.at("k"), c.at("v"), c.options);
  return {result.out, result.log_sum_exp};
}

Results outputs(const GoldenCase& c) {
  const Outcome outcome = testing::attend(c.at("q"), c.at("k"), c.at("v"), c.options);
  return {outcome.out, outcome.log_sum_exp};
}

// Of q, k, v, and of the bias or the table if there is one.
template <class Gradients>
Results gradients_of(const Gradients& given) {
  Results all{given.query, given.key, given.value};
  for (const auto* parameters : {&given.bias, &given.tables}) {
    all.insert(all.end(), parameters->begin(), parameters->end());
  }
  return all;
}

Results reference_gradients(const GoldenCase& c) {
  return gradients_of(reference::attention_backward(c.at("q"), c.at("k"), c.at("v"), c.at("grad_out"), c.options));
}

Results gradients(const GoldenCase& c) {
  return gradients_of(testing::backward(c.at("q"), c.at("k"), c.at("v"), c.at("grad_out"), c.options));
}

testing::MovingArrays moving(const GoldenCase& c) {
  Random unused(1);
  testing::MovingArrays arrays(unused, c.at("q"), c.at("k"), c.at("v"));
  arrays.tq = c.at("tq"), arrays.tk = c.at("tk"), arrays.tv = c.at("tv"), arrays.grad_out = c.at("grad_out");
  return arrays;
}

Results reference_tangents(const GoldenCase& c) {
  const testing::MovingArrays a = moving(c);
  const auto second = reference::attention_double_backward(a.q, a.k, a.v, a.grad_out, a.tangents(), c.options);
  const Tensor out = reference::attention_jvp(a.q, a.k, a.v, a.tangents(), c.options).out;
  return {out, second.query, second.key, second.value, second.grad_out};
}

Results tangents(const GoldenCase& c) {
  const testing::MovingArrays a = moving(c);
  const testing::SecondGradients second = testing::double_backward(a, c.options);
  return {testing::jvp(a, c.options).out, second.query, second.key, second.value, second.grad_out};
}

// Where a file has a result in double and, if it does, as the other system computes it in the type of its inputs. The
// result is as exact as its terms, which may be as large as another part.
struct GoldenPart {
  const char *exact, *plain = nullptr, *terms = nullptr;
};

const std::vector<GoldenPart> kOutputs{{"out_f64", "out"}, {"lse"}};
// A bias that broadcasts along keys changes no weight: its gradient is 0, of terms as large as those of the values.
const std::vector<GoldenPart> kGradients{
    {"dq_f64", "dq"}, {"dk_f64", "dk"}, {"dv_f64", "dv"}, {"dbias_f64", "dbias", "dv"}};
const std::vector<GoldenPart> kTangents{
    {"out", "out_f32"}, {"ddq", "ddq_f32"}, {"ddk", "ddk_f32"}, {"ddv", "ddv_f32"}, {"dd_out", "dd_out_f32"}};
const std::vector<GoldenPart> kRelative{{"grad_q"}, {"grad_k"}, {"grad_v"}, {"grad_table"}};

struct Golden {
  const char *name, *file;
  std::size_t cases;
  std::vector<GoldenPart> parts;  // what the calls give
  Call reference, kernel;
  std::optional<Dtype> narrow;  // other than f64; none: that of the case
  double exact;                 // of two computations in double with sums in different orders
  double times, floor;  // in the narrower type: so many times as far from double as the other system is, and a few
                        // roundings of the largest number
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

// Gradients are below 10 in size, second derivatives below 30.
const Golden kGoldens[] = {
    {"Outputs", "attention/sdpa", 17, kOutputs, reference_outputs, outputs, {}, 1e-14, 2, 2e-7},
    {"Gradients", "attention_backward/sdpa", 14, kGradients, reference_gradients, gradients, Dtype::f32, 2e-14, 3,
     4e-7},
    {"AttentionTangents", "attention_tangents/sdpa", 7, kTangents, reference_tangents, tangents, Dtype::f32, 1e-13, 3,
     4e-7},
    {"RelativeRows", "relative_table/shaw", 3, {{"out"}}, reference_outputs, outputs, Dtype::f32, 1e-14, 0, 2e-6},
    {"RelativeRowsGradients", "relative_table/shaw", 3, kRelative, reference_gradients, gradients, Dtype::f32, 2e-14, 0,
     2e-6}};

class AttentionGolden : public ::testing::TestWithParam<Golden> {
 protected:
  void expect_results(Call call, std::optional<Dtype> dtype) const {
    const auto& [name, path, cases, parts, reference, kernel, narrow, exact, times, floor] = GetParam();
    const SafeTensors file = read_safetensors(fmt::format("{}/golden/{}.safetensors", QKV_TEST_DATA, path));
    std::size_t found = 0;
    for (const auto& [key, query] : file.tensors) {
      if (!key.ends_with(".q")) continue;
      ++found;
      const GoldenCase stored(file, key.substr(0, key.size() - 2), std::nullopt);
      const Results results = call(GoldenCase(file, key.substr(0, key.size() - 2), dtype));
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!stored.parts.contains(parts[i].exact)) continue;
        const Tensor& wanted = stored.at(parts[i].exact);
        const double error = testing::difference(results.at(i), wanted);
        EXPECT_LE(error, tolerance(parts[i], stored, dtype == Dtype::f64)) << key << ", " << parts[i].exact;
      }
    }
    EXPECT_EQ(found, cases);
  }

 private:
  static double tolerance(const GoldenPart& part, const GoldenCase& stored, bool is_double) {
    const Golden& golden = GetParam();
    const Tensor& wanted = stored.at(part.exact);
    double size = testing::largest(wanted);
    if (part.plain == nullptr) return (is_double ? golden.exact : 2 * golden.floor) * std::max(1.0, size);
    if (is_double) return golden.exact;
    if (part.terms != nullptr) size = std::max(size, testing::largest(stored.at(part.terms)));
    return golden.times * testing::difference(stored.at(part.plain), wanted) + golden.floor * size;
  }
};

TEST_P(AttentionGolden, Reference) { expect_results(GetParam().reference, Dtype::f64); }

TEST_P(AttentionGolden, Kernels) {
  for (const std::string& target : testing::usable_targets()) {
    SCOPED_TRACE(target);
    select_target(target);
    expect_results(GetParam().kernel, Dtype::f64);
    expect_results(GetParam().kernel, GetParam().narrow);
  }
  select_target("");
}

INSTANTIATE_TEST_SUITE_P(AttentionFile, AttentionGolden, ::testing::ValuesIn(kGoldens),
                         [](const auto& golden) { return std::string(golden.param.name); });

// Three inputs, three roles, computed by hand in float64.
const Tensor kQuery = Tensor::of<float>({3, 3}, {1, 0, 2, 2, 2, 2, 2, 1, 3});
const Tensor kKey = Tensor::of<float>({3, 3}, {0, 1, 1, 4, 4, 0, 2, 3, 1});
const Tensor kValue = Tensor::of<float>({3, 3}, {1, 2, 3, 2, 8, 0, 2, 6, 3});

struct Gold {
  const char* name;
  AttentionOptions options;
  std::vector<double> weights, log_sum_exp, out;  // weights and log_sum_exp may be left out
};

const std::vector<Gold>& golds() {
  static const std::vector<Gold> list = {
      {"unscaled",
       {.score = Score::dot()},
       {.0633789383, .468310531, .468310531, 6.03366485e-06, .982007865, .0179861014, 2.95387223e-04, .880536902,
        .119167711},
       {4.75862368, 16.018156, 12.1272234},
       {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916, .0539764053, 1.99970461, 7.75989225, .358389295}},
      {"scaled",
       {},
       {.136125798, .431937101, .431937101, 8.90447391e-04, .908842647, .0902669054, .00744489238, .754707581,
        .237847527},
       {3.14887638, 9.33318761, 7.20962815},
       {1.8638742, 6.31937101, 1.7041887, 1.99910955, 7.8141235, .273472058, 1.99255511, 7.47963559, .735877258}},
      {"scaled with look-ahead mask",
       {.mask = Mask::causal()},
       {},
       {},
       {1, 2, 3, 1.9990212, 7.9941272, .0029364021, 1.99255511, 7.47963559, .735877258}}};
  return list;
}

// The gold numbers have nine significant digits.
constexpr double kPrinted = 5e-9;

void expect_numbers(const std::vector<double>& wanted, const TensorView& got, double relative, const char* what) {
  if (wanted.empty()) return;
  const std::vector<double> numbers = testing::values(got);
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], relative * std::abs(wanted[i])) << what << " " << i;
  }
}

template <class Result>
void expect_gold(const Gold& gold, const Result& result, double of_weights, double of_log_sum_exp, double of_out) {
  SCOPED_TRACE(gold.name);
  expect_numbers(gold.weights, result.weights, of_weights, "weight");
  expect_numbers(gold.log_sum_exp, result.log_sum_exp, of_log_sum_exp, "log-sum-exp");
  expect_numbers(gold.out, result.out, of_out, "output");
}

TEST(AttentionGold, Reference) {
  for (const Gold& gold : golds()) {
    expect_gold(gold, reference::attention(kQuery, kKey, kValue, gold.options), kPrinted, kPrinted, kPrinted);
  }
}

QKV_ON_EACH_TARGET(AttentionGoldKernel);

TEST_P(AttentionGoldKernel, EveryType) {
  for (const Gold& gold : golds()) {
    const auto attend = [&](Dtype dtype) {
      return testing::attend(convert(kQuery, dtype), convert(kKey, dtype), convert(kValue, dtype), gold.options);
    };
    // All inputs are exact in every type; what remains is the rounding of the accumulation and of the output.
    expect_gold(gold, attend(Dtype::f64), kPrinted, kPrinted, kPrinted);
    expect_gold(gold, attend(Dtype::f32), 1e-5, 2e-6, 1.2e-5);
    expect_gold(gold, attend(Dtype::bf16), 1e-5, 2e-6, 0x1p-8 + 1e-5);
    expect_gold(gold, attend(Dtype::f16), 1e-5, 2e-6, 0x1p-11 + 1e-5);
  }
}

TEST_P(AttentionGoldKernel, LogitsAreTheScores) {
  constexpr double kHidden = -testing::kInfinity;
  const Outcome outcome = testing::attend(kQuery, kKey, kValue, {.mask = Mask::causal(), .score = Score::dot()});
  EXPECT_EQ(testing::values(outcome.logits), (std::vector<double>{2, kHidden, kHidden, 4, 16, kHidden, 4, 12, 10}));
}

// The additive, concatenation and bilinear scores, on numbers small enough for pencil and paper.
TEST(AttentionGold, OtherScores) {
  const Tensor q = Tensor::of<double>({1, 2}, {1, 2}), k = Tensor::of<double>({2, 1}, {3, -1});
  const Tensor v = Tensor::of<double>({2, 1}, {1, 0});
  const Tensor w_query = Tensor::of<double>({1, 2}, {0.5, -0.25}), w_key = Tensor::of<double>({1, 1}, {2});
  const Tensor joined = Tensor::of<double>({1, 3}, {0.5, -0.25, 2}), factor = Tensor::of<double>({1}, {1.5});
  const Tensor middle = Tensor::of<double>({2, 1}, {1, -2});
  // additive and concatenation: 1.5 tanh(0 + 6), 1.5 tanh(0 - 2); bilinear: (1 - 4) * 3, (1 - 4) * -1.
  const std::vector<double> additive = {1.5 * std::tanh(6.0), 1.5 * std::tanh(-2.0)}, bilinear = {-9, 3};
  const auto logits = [&](const Score& score) {
    return testing::values(reference::attention(q, k, v, {.score = score}).logits);
  };
  EXPECT_EQ(logits(Score::additive(w_query, w_key, factor)), additive);
  EXPECT_EQ(logits(Score::concat(joined, factor)), additive);
  EXPECT_EQ(logits(Score::bilinear(middle)), bilinear);
}

}  // namespace
}  // namespace qkv
