// Parity with torch's scaled_dot_product_attention: golden/attention/sdpa.safetensors, made by make.py beside it.
#include <map>

#include "attention/attention_testing.h"
#include "qkv/files.h"
#include "reference/attention.h"

namespace qkv {
namespace {

const SafeTensors& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/attention/sdpa.safetensors");
  return file;
}

const char* const kCases[] = {"self",        "cross", "long",        "one_query", "causal_square", "causal_wide",
                              "causal_tall", "mask",  "masked_rows", "bias",      "infinite_bias", "lowest_bias",
                              "grouped",     "scale", "value_dim",   "large",     "bf16"};

TensorView tensor(const std::string& name) { return golden().tensors.at(name).view(); }

// The options of a case; `bias` stands in for the case's own where the inputs have another type.
AttentionOptions options_of(const std::string& name, const Tensor& bias = {}) {
  AttentionOptions options;
  const auto& [tensors, metadata] = golden();
  if (metadata.at(name + ".causal") == "1") options.mask = Mask::causal(Align::top_left);
  if (tensors.contains(name + ".mask")) options.mask = options.mask & Mask::boolean(tensor(name + ".mask"));
  if (tensors.contains(name + ".bias")) {
    options.bias = Bias::view(bias.element_count() > 0 ? bias.view() : tensor(name + ".bias"));
  }
  if (metadata.contains(name + ".scale")) options.scale = std::stod(metadata.at(name + ".scale"));
  return options;
}

// Two double computations with sums in different orders; outputs are below 4 in size.
constexpr double kDoubleTolerance = 1e-14;

TEST(AttentionGolden, EveryCaseIsThere) {
  EXPECT_EQ(golden().metadata.size(), std::size(kCases) + 1);  // a causal flag each, and one scale
}

TEST(AttentionGolden, Reference) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const auto result =
        reference::attention(tensor(name + ".q"), tensor(name + ".k"), tensor(name + ".v"), options_of(name));
    EXPECT_LE(testing::difference(result.out, tensor(name + ".out_f64")), kDoubleTolerance);
    const double lse_tolerance = kDoubleTolerance * std::max(1.0, testing::largest(tensor(name + ".lse")));
    EXPECT_LE(testing::difference(result.log_sum_exp, tensor(name + ".lse")), lse_tolerance);
  }
}

QKV_ON_EACH_TARGET(AttentionGoldenKernel);

TEST_P(AttentionGoldenKernel, Double) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const auto in_double = [&](const char* part) { return convert(tensor(name + part), Dtype::f64); };
    const Tensor bias = golden().tensors.contains(name + ".bias") ? in_double(".bias") : Tensor();
    const testing::Outcome outcome =
        testing::attend(in_double(".q"), in_double(".k"), in_double(".v"), options_of(name, bias));
    EXPECT_LE(testing::difference(outcome.out, tensor(name + ".out_f64")), kDoubleTolerance);
    const double lse_tolerance = kDoubleTolerance * std::max(1.0, testing::largest(tensor(name + ".lse")));
    EXPECT_LE(testing::difference(outcome.log_sum_exp, tensor(name + ".lse")), lse_tolerance);
  }
}

// At most twice as far from float64 as torch itself is in the same type; the floor is a few roundings of the
// accumulation.
TEST_P(AttentionGoldenKernel, TypeOfTheInputs) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const testing::Outcome outcome =
        testing::attend(tensor(name + ".q"), tensor(name + ".k"), tensor(name + ".v"), options_of(name));
    const TensorView exact = tensor(name + ".out_f64");
    const double torch_error = testing::difference(tensor(name + ".out"), exact);
    EXPECT_LE(testing::difference(outcome.out, exact), 2 * torch_error + 2e-7 * testing::largest(exact));
    const double lse_tolerance = 4e-7 * std::max(1.0, testing::largest(tensor(name + ".lse")));
    EXPECT_LE(testing::difference(outcome.log_sum_exp, tensor(name + ".lse")), lse_tolerance);
  }
}

}  // namespace
}  // namespace qkv
