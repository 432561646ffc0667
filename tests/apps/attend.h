// A folder with arrays for `qkv attend`, and what its tests ask of it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "apps/program.h"
#include "qkv/files.h"
#include "qkv/tensor.h"

namespace qkv::test {

class Attend : public testing::Test {
 protected:
  template <class T>
  std::string save(const std::string& name, const Dims& shape, const std::vector<T>& values) {
    write_npy(folder_ / name, Tensor::of<T>(shape, values));
    return folder_ / name;
  }

  // Runs `qkv attend` on q.npy, k.npy and v.npy, which writes o.npy.
  Outcome attend(const std::vector<std::string>& options, const Surroundings& surroundings = {}) {
    std::vector<std::string> arguments = {"attend",          "--query",         folder_ / "q.npy",
                                          "--key",           folder_ / "k.npy", "--value",
                                          folder_ / "v.npy", "--out",           folder_ / "o.npy"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments, surroundings);
  }

  void expect_success(const Outcome& outcome) {
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
  }

  void expect_array(const std::string& name, Dtype dtype, const Dims& shape, const std::vector<double>& expected,
                    double tolerance = 2e-6) {
    const Tensor array = read_npy(folder_ / name);
    EXPECT_EQ(array.dtype(), dtype);
    ASSERT_EQ(array.shape(), shape) << name << " " << to_string(array.shape());
    const Tensor wide = convert(array, Dtype::f64);
    ASSERT_EQ(static_cast<std::size_t>(wide.element_count()), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double value = wide.data<double>()[i];
      if (std::isinf(expected[i])) {
        EXPECT_EQ(value, expected[i]) << name << " at " << i;
      } else {
        EXPECT_NEAR(value, expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << name << " at " << i;
      }
    }
  }

  // The worked example of the illustrated walk-throughs of self-attention: three inputs, three roles.
  template <class T>
  void save_worked_example() {
    save<T>("q.npy", {3, 3}, {1, 0, 2, 2, 2, 2, 2, 1, 3});
    save<T>("k.npy", {3, 3}, {0, 1, 1, 4, 4, 0, 2, 3, 1});
    save<T>("v.npy", {3, 3}, {1, 2, 3, 2, 8, 0, 2, 6, 3});
  }

  // Three queries of zeros over four keys: every visible key gets the same weight.
  void save_indifferent_queries(const Dims& batch_and_heads = {}) {
    Dims query = batch_and_heads, key = batch_and_heads;
    query.push_back(3);
    query.push_back(2);
    key.push_back(4);
    key.push_back(2);
    write_npy(folder_ / "q.npy", Tensor::zeros(query));
    write_npy(folder_ / "k.npy", Tensor::zeros(key));
    write_npy(folder_ / "v.npy", Tensor::zeros(key));
  }

  // The weights over visible keys alone, each row in proportion to `shares` [rows, 4].
  void expect_weights(const std::vector<std::string>& options, const Dims& shape, std::vector<double> shares) {
    std::vector<std::string> all = options;
    all.insert(all.end(), {"--weights", folder_ / "w.npy"});
    expect_success(attend(all));
    for (std::size_t row = 0; row < shares.size(); row += 4) {
      double sum = 0;
      for (std::size_t j = row; j < row + 4; ++j) sum += shares[j];
      for (std::size_t j = row; j < row + 4; ++j) shares[j] = sum > 0 ? shares[j] / sum : 0;
    }
    expect_array("w.npy", Dtype::f32, shape, shares);
  }

  TempFolder folder_;
};

}  // namespace qkv::test
