// Arrays into files, each by the ending of its path; and as text.
#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <functional>
#include <string>
#include <type_traits>

#include "core/stop.h"
#include "io/arrays/safetensors_header.h"
#include "io/files/atomic_file.h"
#include "io/files/files.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

using Sink = std::function<void(std::string_view)>;

// As few digits as read back the same number. JSON has no numbers that are not finite.
template <class Number>
std::string number_text(Number value, const char* mark) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return fmt::format("{}{}{}", mark, value, mark);
  }
  return fmt::format("{}", value);
}

// The numbers of each row of the last dimension, in order, joined by `between`.
template <class Number>
void rows_as(const Tensor& array, const char* between, const char* mark,
             const std::function<void(std::int64_t row, const std::string& numbers)>& take) {
  const std::int64_t last = array.rank() == 0 ? 1 : array.size(-1);
  const Number* at = array.data<Number>();
  for (std::int64_t row = 0; last > 0 && row < array.element_count() / last; ++row) {
    check_stop();
    std::string numbers;
    for (std::int64_t i = 0; i < last; ++i) numbers += (i == 0 ? "" : between) + number_text(*at++, mark);
    take(row, numbers);
  }
}

void for_each_row(const TensorView& view, const char* between, const char* mark,
                  const std::function<void(std::int64_t row, const std::string& numbers)>& take) {
  const Tensor array = Tensor::copy(view);
  if (array.dtype() == Dtype::i64) return rows_as<std::int64_t>(array, between, mark, take);
  if (array.dtype() == Dtype::f32) return rows_as<float>(array, between, mark, take);
  rows_as<double>(convert(array, Dtype::f64), between, mark, take);
}

void write_csv(const TensorView& array, const Sink& sink) {
  for_each_row(array, ",", "", [&](std::int64_t, const std::string& numbers) { sink(numbers + "\n"); });
}

// How many of the lists around the rows begin with this row, or end before it.
std::size_t lists_at(const Dims& shape, std::int64_t row) {
  std::size_t lists = 0;
  std::int64_t rows = 1;
  for (int dim = shape.size() - 2; dim >= 0; --dim) {
    rows *= shape[dim];
    if (row % rows != 0) break;
    ++lists;
  }
  return lists;
}

void write_json(const TensorView& array, const Sink& sink) {
  if (array.element_count() == 0) return sink("[]\n");
  for_each_row(array, ", ", "\"", [&](std::int64_t row, const std::string& numbers) {
    if (array.rank() == 0) return sink(numbers);
    sink((row == 0 ? "" : ",\n") + std::string(lists_at(array.shape(), row), '[') + "[" + numbers + "]" +
         std::string(lists_at(array.shape(), row + 1), ']'));
  });
  sink("\n");
}

}  // namespace

std::string json_of_array(const TensorView& array) {
  std::string text;
  write_json(array, [&](std::string_view part) { text += part; });
  return text;
}

void check_array_file(const std::string& path, const Dims& shape) {
  if (!has_ending(path, ".csv")) return;
  for (int dim = 0; dim + 2 < shape.size(); ++dim) {
    if (shape[dim] != 1) {
      throw FormatError(fmt::format("{}: .csv holds one matrix, but this has shape {}; use .npy, .json or .safetensors",
                                    path, to_string(shape)));
    }
  }
}

void write_array_files(std::span<const ArrayFile> files) {
  std::deque<AtomicFile> written;
  for (const auto& [path, array, name] : files) {
    check_array_file(path, array.shape());
    AtomicFile& file = written.emplace_back(path);
    const Sink sink = [&file](std::string_view part) { file.write(part); };
    if (has_ending(path, ".npy")) {
      write_npy(file, path, array);
    } else if (has_ending(path, ".csv")) {
      write_csv(array, sink);
    } else if (has_ending(path, ".json")) {
      write_json(array, sink);
    } else {
      const SafetensorsEntry entry{name, array.dtype(), array.shape(), bytes_of(array).size()};
      write_safetensors(file, path, {.entries = {entry}, .metadata = {}},
                        [&](const std::string&) -> TensorView { return array; });
    }
    file.finish();
  }
  for (AtomicFile& file : written) file.commit();
}

}  // namespace qkv::io
