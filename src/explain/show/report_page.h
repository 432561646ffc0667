// The page of a report and its contents: compressed and encoded bytes, text and tables in HTML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/svg.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

// web/dist/page.html, as it was when the library was built. It has the marks <!--qkv:title-->, <!--qkv:report--> and
// <!--qkv:data--> once each.
std::string_view report_page();

// In the format of RFC 1950, for a browser's DecompressionStream("deflate"). Never more than bytes.size() / 2^11 + 16
// bytes longer.
std::string deflated(std::string_view bytes);

// Five letters for four bytes (base64 has five and a third): the letters of Z85 (https://rfc.zeromq.org/spec/32), but a
// comma for "<", which would end a page's element. As in Ascii85, the last 1 to 3 bytes are one letter more than bytes.
void append_base85(std::string& text, std::string_view bytes);

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
