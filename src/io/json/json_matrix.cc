// A matrix as a JSON array of arrays.
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "io/json/json_events.h"
#include "qkv/files.h"

namespace qkv {
namespace io {
namespace {

class MatrixEvents : public JsonEvents {
 public:
  using JsonEvents::JsonEvents;

  Tensor matrix() const {
    if (values_.empty()) refuse("no numbers");
    return Tensor::of<double>({rows_, columns_}, values_);
  }

  bool number_integer(std::int64_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(std::uint64_t value) override { return number(static_cast<double>(value)); }
  bool number_float(double value, const std::string&) override { return number(value); }

  // As json_events.h writes them.
  bool string(std::string& text) override {
    const double infinity = std::numeric_limits<double>::infinity();
    if (text == "inf") return number(infinity);
    if (text == "-inf") return number(-infinity);
    if (text == "nan") return number(std::numeric_limits<double>::quiet_NaN());
    unexpected("a string other than \"inf\", \"-inf\" and \"nan\"");
  }

  bool start_array(std::size_t) override {
    if (depth_ == 2 || flat_) unexpected("an array");
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    if (depth_ == 1 || flat_) end_row();
    return true;
  }

 private:
  std::string why_not(std::string_view kind) const override {
    return fmt::format("{} in row {}; a matrix is an array of arrays of numbers, or one array of numbers", kind,
                       rows_ + 1);
  }

  bool number(double value) {
    if (depth_ == 0 || (depth_ == 1 && rows_ > 0)) unexpected("a number outside the rows");
    flat_ = depth_ == 1;
    values_.push_back(value);
    return true;
  }

  void end_row() {
    ++rows_;
    const auto count = static_cast<std::int64_t>(values_.size()) - (rows_ - 1) * columns_;
    if (count == 0) refuse(fmt::format("row {} is empty", rows_));
    if (rows_ == 1) columns_ = count;
    if (count != columns_) refuse(fmt::format("row {} has {} numbers, but row 1 has {}", rows_, count, columns_));
  }

  std::vector<double> values_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  int depth_ = 0;
  bool flat_ = false;  // one array of numbers
};

}  // namespace
}  // namespace io

Tensor parse_json_matrix(std::string_view text, const std::string& name) {
  io::MatrixEvents events(name);
  events.parse(text);
  return events.matrix();
}

Tensor read_json_matrix(const std::string& path) { return parse_json_matrix(read_file(path), path); }

}  // namespace qkv
