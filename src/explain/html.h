// Text in HTML: nothing in it is markup, whatever it holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Bytes that are not UTF-8, and controls, become U+FFFD.
std::string html_text(std::string_view text);

// Matrices as HTML tables: numbers with five decimals.
std::string html_element(const char* tag, const std::string& html);
std::string html_cell(double value);
std::string html_row_head(const std::string& name);
std::string html_column_heads(const std::vector<std::string>& names, bool after_rows);

// f64. Rank 1 is a row; of rank 3 each matrix has a table. Of more than 65,536 numbers a line says that they are too
// many.
std::string html_table(const std::string& name, const TensorView& values, const std::vector<std::string>& rows = {},
                       const std::vector<std::string>& columns = {});

}  // namespace qkv::inline explaining
