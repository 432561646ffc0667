// Forward-mode derivatives and double backward as torch computes them: golden/attention_tangents/sdpa.safetensors, made
// by make.py beside it.
#include "attention/tangent/attention_tangents_testing.h"
#include "qkv/files.h"

namespace qkv {
namespace {

const SafeTensors& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/attention_tangents/sdpa.safetensors");
  return file;
}

const char* const kCases[] = {"self", "cross", "causal_square", "causal_tall", "grouped", "value_dim", "scale"};

Tensor tensor(const std::string& name, Dtype dtype = Dtype::f64) { return convert(golden().tensors.at(name), dtype); }

AttentionOptions options_of(const std::string& name) {
  AttentionOptions options;
  if (golden().metadata.at(name + ".causal") == "1") options.mask = Mask::causal(Align::top_left);
  if (golden().metadata.contains(name + ".scale")) options.scale = std::stod(golden().metadata.at(name + ".scale"));
  return options;
}

testing::MovingArrays arrays_of(const std::string& name, Dtype dtype) {
  Random random(1);
  testing::MovingArrays arrays(random, tensor(name + ".q", dtype), tensor(name + ".k", dtype),
                               tensor(name + ".v", dtype));
  arrays.tq = tensor(name + ".tq", dtype);
  arrays.tk = tensor(name + ".tk", dtype);
  arrays.tv = tensor(name + ".tv", dtype);
  arrays.grad_out = tensor(name + ".grad_out", dtype);
  return arrays;
}

// check(what was computed, the name of its part), for each result of the case.
template <class Check>
void for_each_result(const std::string& name, Dtype dtype, const Check& check) {
  const testing::MovingArrays arrays = arrays_of(name, dtype);
  const testing::SecondGradients second = testing::double_backward(arrays, options_of(name));
  check(testing::jvp(arrays, options_of(name)).out, name + ".out");
  check(second.query, name + ".ddq");
  check(second.key, name + ".ddk");
  check(second.value, name + ".ddv");
  check(second.grad_out, name + ".dd_out");
}

QKV_ON_EACH_TARGET(AttentionTangentsGolden);

TEST_P(AttentionTangentsGolden, EveryCaseIsThere) {
  EXPECT_EQ(golden().metadata.size(), std::size(kCases) + 1);  // a causal flag each, and one scale
}

TEST_P(AttentionTangentsGolden, Double) {
  for (const std::string name : kCases) {
    for_each_result(name, Dtype::f64, [](const Tensor& got, const std::string& part) {
      // Two double computations with sums in different orders; second derivatives are below 30 in size.
      EXPECT_LE(testing::difference(got, tensor(part)), 1e-13) << part;
    });
  }
}

// At most three times as far from float64 as torch is in float; the floor is a few roundings of the largest number.
TEST_P(AttentionTangentsGolden, Float) {
  for (const std::string name : kCases) {
    for_each_result(name, Dtype::f32, [](const Tensor& got, const std::string& part) {
      const Tensor exact = tensor(part);
      const double torch_error = testing::difference(tensor(part + "_f32"), exact);
      EXPECT_LE(testing::difference(got, exact), 3 * torch_error + 4e-7 * testing::largest(exact)) << part;
    });
  }
}

}  // namespace
}  // namespace qkv
