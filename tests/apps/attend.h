// Arrays for `qkv attend` in a notation for tests, and what is asked of those that it writes.
#pragma once

#include <cmath>

#include "apps/program.h"
#include "qkv/files.h"

namespace qkv::test {

// q.npy, k.npy and v.npy, and o.npy to write.
inline const std::string kAttend = "attend --query q.npy --key k.npy --value v.npy --out o.npy ";

// "w:f64 [[1/3,ln2],[-inf,nan]]": two rows of w.npy. The type is f32 where none is said; 7{2,3} are two rows of 7.
struct WrittenArray {
  std::string file;
  Tensor numbers;  // f64
  Dtype dtype = Dtype::f32;
};

inline Tensor numbers_in(const std::string& text) {
  Dims shape;
  std::vector<double> values;
  std::vector<std::int64_t> lists;  // at each depth
  std::size_t depth = 0;
  const auto number = [](const char*& at) {
    const bool is_logarithm = std::string_view(at).starts_with("ln");
    char* end = nullptr;
    const double value = std::strtod(is_logarithm ? at + 2 : at, &end);
    at = end;
    return is_logarithm ? std::log(value) : value;
  };
  for (const char* at = text.c_str(); *at != 0;) {
    if (*at == '[') {
      if (++depth > lists.size()) lists.push_back(0);
      ++lists[depth - 1], ++at;
    } else if (*at == ']') {
      --depth, ++at;
    } else if (*at == '{') {
      while (*at != '}') shape.push_back(static_cast<std::int64_t>(number(++at)));
      std::int64_t count = 1;
      for (const std::int64_t size : shape) count *= size;
      return Tensor::of<double>(shape, std::vector<double>(static_cast<std::size_t>(count), values.at(0)));
    } else if (*at == ',') {
      ++at;
    } else if (*at == '/') {
      values.back() /= number(++at);
    } else {
      values.push_back(number(at));
    }
  }
  lists.push_back(static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i + 1 < lists.size(); ++i) shape.push_back(lists[i + 1] / lists[i]);
  return Tensor::of<double>(shape, values);
}

inline std::vector<WrittenArray> written_arrays(const std::string& text) {
  std::vector<WrittenArray> all;
  std::istringstream words(text);
  for (std::string name, numbers; words >> name >> numbers;) {
    all.push_back({name.substr(0, name.find(':')) + ".npy", numbers_in(numbers)});
    for (const Dtype dtype : {Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean}) {
      if (name.ends_with(":" + std::string(name_of(dtype)))) all.back().dtype = dtype;
    }
  }
  return all;
}

inline void save_arrays(const Folder& folder, const std::string& text) {
  for (const auto& [file, numbers, dtype] : written_arrays(text)) write_npy(folder / file, convert(numbers, dtype));
}

// The worked example of the illustrated walk-throughs of self-attention: three inputs, three roles.
inline std::string worked_example(const std::string& type = "") {
  return "q" + type + " [[1,0,2],[2,2,2],[2,1,3]] k" + type + " [[0,1,1],[4,4,0],[2,3,1]] v" + type +
         " [[1,2,3],[2,8,0],[2,6,3]] ";
}

class Attend : public testing::Test {
 protected:
  void save(const std::string& arrays) { save_arrays(folder_, arrays); }

  // That the command succeeds without a word and that these are its arrays, each number within its `tolerance`.
  void expect(const std::string& options, const std::string& arrays, double tolerance = 2e-6) {
    SCOPED_TRACE(options);
    EXPECT_EQ(folder_.text(kAttend + options), "");
    for (const auto& [file, numbers, dtype] : written_arrays(arrays)) expect_array(file, numbers, dtype, tolerance);
  }
  void expect_array(const std::string& file, const Tensor& numbers, Dtype dtype, double tolerance) {
    const Tensor array = read_npy(folder_ / file), wide = convert(array, Dtype::f64);
    EXPECT_EQ(array.dtype(), dtype) << file;
    ASSERT_EQ(array.shape(), numbers.shape()) << file;
    for (std::int64_t i = 0; i < numbers.element_count(); ++i) {
      const double found = wide.data<double>()[i], wanted = numbers.data<double>()[i];
      const bool same = found == wanted || (std::isnan(found) && std::isnan(wanted));
      EXPECT_TRUE(same || std::abs(found - wanted) <= tolerance * std::max(1.0, std::abs(wanted)))
          << file << " at " << i << ": " << found << ", not " << wanted;
    }
  }

  // The weights over visible keys alone, four in each row, in proportion to `shares`.
  void expect_weights(const std::string& options, const std::string& shares) {
    Tensor weights = numbers_in(shares);
    for (double* row = weights.data<double>(); row != weights.data<double>() + weights.element_count(); row += 4) {
      const double sum = std::max(row[0] + row[1] + row[2] + row[3], 1e-30);
      std::for_each(row, row + 4, [&](double& share) { share /= sum; });
    }
    expect(options + " --weights w.npy", "");
    expect_array("w.npy", weights, Dtype::f32, 2e-6);
  }

  const Folder folder_;
};

}  // namespace qkv::test
