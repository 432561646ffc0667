// What other systems gave, by name: tests/golden/NAME/NAME.safetensors, made by make.py beside it.
#pragma once

#include "attention/attention_testing.h"
#include "qkv/files.h"
#include "qkv/layers/weights.h"

namespace qkv::testing {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name)
      : file_(read_safetensors(QKV_TEST_DATA "/golden/" + name + "/" + name + ".safetensors")) {}

  const std::map<std::string, std::string>& metadata() const { return file_.metadata; }
  bool has(const std::string& name) const { return file_.tensors.contains(name); }
  const Tensor& at(const std::string& name) const { return file_.tensors.at(name); }
  Tensor get(const std::string& name, Dtype dtype) const { return convert(at(name), dtype); }

  // Those whose names begin with `prefix`, without it.
  std::map<std::string, Tensor> under(const std::string& prefix, Dtype dtype) const {
    std::map<std::string, Tensor> found;
    for (const auto& [name, tensor] : file_.tensors) {
      if (name.starts_with(prefix)) found[name.substr(prefix.size())] = convert(tensor, dtype);
    }
    return found;
  }

  // A layer that takes all of those.
  template <class Layer, class Config>
  Layer make(const Config& config, const std::string& prefix, Dtype dtype) const {
    Weights weights(under(prefix, dtype), prefix, dtype);
    Layer layer(config, weights);
    weights.expect_empty();
    return layer;
  }

  // To a part of the largest number.
  void expect(const Tensor& given, const std::string& name, double part) const {
    ASSERT_EQ(given.shape(), at(name).shape()) << name;
    EXPECT_LE(difference(given, at(name)), part * largest(at(name))) << name;
  }

  // f32 is at most twice as far from NAME.out_f64 as the other system's own, NAME.out, above a floor of a few
  // roundings.
  void expect_as_exact(const Tensor& given, const std::string& name) const {
    const Tensor& exact = at(name + ".out_f64");
    EXPECT_LE(difference(given, exact), 2 * difference(at(name + ".out"), exact) + 5e-7 * largest(exact)) << name;
  }

 private:
  SafeTensors file_;
};

}  // namespace qkv::testing
