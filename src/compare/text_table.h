// Rows of words in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace qkv::comparison {

class TextTable {
 public:
  // The first row names the columns; the first column is aligned left, all others right.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A block for each value, as high as its share of 1; no block for NaN.
std::string sparkline(const std::vector<double>& shares);

}  // namespace qkv::comparison
