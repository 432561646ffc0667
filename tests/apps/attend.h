// A folder with arrays for `qkv attend`, and what its tests ask of it.
#pragma once

#include <cmath>

#include "apps/program.h"
#include "qkv/files.h"

namespace qkv::test {

// q.npy, k.npy and v.npy, and o.npy to write.
inline const std::string kAttend = "attend --query q.npy --key k.npy --value v.npy --out o.npy ";

template <class T>
void save(const Folder& folder, const std::string& name, const Dims& shape, const std::vector<T>& values) {
  write_npy(folder / name, Tensor::of<T>(shape, values));
}

// The worked example of the illustrated walk-throughs of self-attention: three inputs, three roles.
template <class T>
void save_worked_example(const Folder& folder) {
  save<T>(folder, "q.npy", {3, 3}, {1, 0, 2, 2, 2, 2, 2, 1, 3});
  save<T>(folder, "k.npy", {3, 3}, {0, 1, 1, 4, 4, 0, 2, 3, 1});
  save<T>(folder, "v.npy", {3, 3}, {1, 2, 3, 2, 8, 0, 2, 6, 3});
}

struct SavedArray {
  const char* name;
  Dims shape;
  std::vector<double> values;
  Dtype dtype = Dtype::f32;
};

class Attend : public testing::Test {
 protected:
  template <class T>
  void save(const std::string& name, const Dims& shape, const std::vector<T>& values) {
    test::save<T>(folder_, name, shape, values);
  }
  void save_inputs(const Dims& query, const std::vector<float>& q, const Dims& key, const std::vector<float>& k,
                   const Dims& value, const std::vector<float>& v) {
    save<float>("q.npy", query, q);
    save<float>("k.npy", key, k);
    save<float>("v.npy", value, v);
  }
  // Three queries of zeros over four keys: every visible key gets the same weight.
  void save_indifferent_queries(const Dims& batch_and_heads = {}) {
    Dims query = batch_and_heads, key = batch_and_heads;
    for (const std::int64_t size : {3, 2}) query.push_back(size);
    for (const std::int64_t size : {4, 2}) key.push_back(size);
    write_npy(folder_ / "q.npy", Tensor::zeros(query));
    for (const char* name : {"k.npy", "v.npy"}) write_npy(folder_ / name, Tensor::zeros(key));
  }

  // That the command succeeds without a word and that these are its arrays, each number within its `tolerance`.
  void expect(const std::string& options, const std::vector<SavedArray>& arrays, double tolerance = 2e-6) {
    SCOPED_TRACE(options);
    EXPECT_EQ(folder_.text(kAttend + options), "");
    for (const auto& [name, shape, values, dtype] : arrays) {
      const Tensor array = read_npy(folder_ / name), wide = convert(array, Dtype::f64);
      EXPECT_EQ(array.dtype(), dtype);
      ASSERT_EQ(array.shape(), shape) << name;
      ASSERT_EQ(static_cast<std::size_t>(wide.element_count()), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double found = wide.data<double>()[i], bound = tolerance * std::max(1.0, std::abs(values[i]));
        EXPECT_TRUE(found == values[i] || std::abs(found - values[i]) <= bound)
            << name << " at " << i << ": " << found << ", not " << values[i];
      }
    }
  }

  // The weights over visible keys alone, each row in proportion to `shares` [rows, 4].
  void expect_weights(const std::string& options, const Dims& shape, std::vector<double> shares) {
    for (auto row = shares.begin(); row != shares.end(); row += 4) {
      const double sum = std::max(row[0] + row[1] + row[2] + row[3], 1e-30);
      std::for_each(row, row + 4, [&](double& share) { share /= sum; });
    }
    expect(options + " --weights w.npy", {{"w.npy", shape, shares}});
  }

  const Folder folder_;
};

}  // namespace qkv::test
