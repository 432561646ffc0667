// Gradients as torch's autograd gives them: golden/attention_backward/sdpa.safetensors, made by make.py beside it.
#include "attention/backward/attention_backward_testing.h"
#include "qkv/files.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

const SafeTensors& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/attention_backward/sdpa.safetensors");
  return file;
}

const char* const kCases[] = {"self",          "cross",        "causal_square",   "causal_wide", "causal_tall",
                              "masked_rows",   "bias",         "grouped",         "value_dim",   "scale",
                              "bias_of_heads", "bias_of_keys", "bias_of_queries", "dropout"};

// A tensor of the file, in this type unless it is a mask.
Tensor tensor(const std::string& name, Dtype dtype = Dtype::f64) {
  const Tensor& stored = golden().tensors.at(name);
  return stored.dtype() == Dtype::boolean ? stored : convert(stored, dtype);
}

// Borrows `added`: the mask or bias of the case.
AttentionOptions options_of(const std::string& name, const Tensor& added) {
  const auto& [tensors, metadata] = golden();
  AttentionOptions options;
  if (metadata.at(name + ".causal") == "1") options.mask = Mask::causal(Align::top_left);
  if (tensors.contains(name + ".mask")) options.mask = Mask::boolean(added);
  if (tensors.contains(name + ".bias")) options.bias = Bias::view(added);
  if (name == "dropout") options.dropout = {.p = 0.25, .seed = 7};
  if (metadata.contains(name + ".scale")) options.scale = std::stod(metadata.at(name + ".scale"));
  return options;
}

Tensor added_of(const std::string& name, Dtype dtype) {
  for (const char* part : {".mask", ".bias"}) {
    if (golden().tensors.contains(name + part)) return tensor(name + part, dtype);
  }
  return {};
}

// Two double computations with sums in different orders; gradients are below 10 in size.
constexpr double kDoubleTolerance = 2e-14;

TEST(AttentionBackwardGolden, EveryCaseIsThere) {
  EXPECT_EQ(golden().metadata.size(), std::size(kCases) + 1);  // a causal flag each, and one scale
}

TEST(AttentionBackwardGolden, Reference) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const Tensor added = added_of(name, Dtype::f64);
    const reference::AttentionGradients given =
        reference::attention_backward(tensor(name + ".q"), tensor(name + ".k"), tensor(name + ".v"),
                                      tensor(name + ".grad_out"), options_of(name, added));
    EXPECT_LE(testing::difference(given.query, tensor(name + ".dq_f64")), kDoubleTolerance);
    EXPECT_LE(testing::difference(given.key, tensor(name + ".dk_f64")), kDoubleTolerance);
    EXPECT_LE(testing::difference(given.value, tensor(name + ".dv_f64")), kDoubleTolerance);
    for (const Tensor& bias : given.bias) {
      EXPECT_LE(testing::difference(bias, tensor(name + ".dbias_f64")), kDoubleTolerance);
    }
  }
}

QKV_ON_EACH_TARGET(AttentionBackwardGoldenKernel);

testing::Gradients gradients(const std::string& name, Dtype dtype) {
  const Tensor added = added_of(name, dtype);
  return testing::backward(tensor(name + ".q", dtype), tensor(name + ".k", dtype), tensor(name + ".v", dtype),
                           tensor(name + ".grad_out", dtype), options_of(name, added));
}

TEST_P(AttentionBackwardGoldenKernel, Double) {
  for (const std::string name : kCases) {
    SCOPED_TRACE(name);
    const testing::Gradients given = gradients(name, Dtype::f64);
    EXPECT_LE(testing::difference(given.query, tensor(name + ".dq_f64")), kDoubleTolerance);
    EXPECT_LE(testing::difference(given.key, tensor(name + ".dk_f64")), kDoubleTolerance);
    EXPECT_LE(testing::difference(given.value, tensor(name + ".dv_f64")), kDoubleTolerance);
    for (const Tensor& bias : given.bias) {
      EXPECT_LE(testing::difference(bias, tensor(name + ".dbias_f64")), kDoubleTolerance);
    }
  }
}

// At most three times as far from float64 as torch is in float; the floor is a few roundings of the largest gradient.
TEST_P(AttentionBackwardGoldenKernel, Float) {
  for (const std::string name : kCases) {
    const testing::Gradients given = gradients(name, Dtype::f32);
    const auto check = [&](const Tensor& got, const std::string& part, double size) {
      const Tensor exact = tensor(name + part + "_f64");
      const double torch_error = testing::difference(tensor(name + part), exact);
      EXPECT_LE(testing::difference(got, exact), 3 * torch_error + 4e-7 * size) << name << part;
    };
    const auto size_of = [&](const char* part) { return testing::largest(tensor(name + part)); };
    check(given.query, ".dq", size_of(".dq"));
    check(given.key, ".dk", size_of(".dk"));
    check(given.value, ".dv", size_of(".dv"));
    // A bias that broadcasts along keys changes no weight: its gradient is 0, a sum of terms as large as others.
    for (const Tensor& bias : given.bias) check(bias, ".dbias", std::max(size_of(".dbias"), size_of(".dv")));
  }
}

}  // namespace
}  // namespace qkv
