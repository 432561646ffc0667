// Arrays for `qkv attend` in a notation for tests, and what is asked of those that it writes.
#pragma once

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

inline double number_in(const std::string& text) {
  if (text.starts_with("ln")) return std::log(std::stod(text.substr(2)));
  const std::size_t slash = text.find('/');
  return std::stod(text) / (slash == std::string::npos ? 1 : std::stod(text.substr(slash + 1)));
}

inline Tensor numbers_in(std::string text) {
  const bool is_filled = holds(text, "{");
  std::vector<std::int64_t> lists;  // how many at each depth
  std::size_t depth = 0;
  for (char& c : text) {
    lists.resize(std::max(lists.size(), depth + 1));
    if (c == '[') ++lists[depth++];
    if (c == ']') --depth;
    if (std::string_view("[]{},").find(c) != std::string_view::npos) c = ' ';
  }
  std::vector<double> values;
  for (const std::string& word : words_of(text)) values.push_back(number_in(word));
  Dims shape;
  if (is_filled) {
    std::size_t count = 1;
    for (std::size_t i = 1; i < values.size(); ++i) shape.push_back(static_cast<std::int64_t>(values[i]));
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    values = std::vector<double>(count, values[0]);
  } else {
    lists.back() = static_cast<std::int64_t>(values.size());
    for (std::size_t i = 0; i + 1 < lists.size(); ++i) shape.push_back(lists[i + 1] / lists[i]);
  }
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
