// Numbers with a fraction or an exponent as serde_json reads them, which reads the files of the `tokenizers` library.
#pragma once

#include <string_view>

namespace qkv::io {

// The value of a JSON number: its digits, as many as 64 bits hold, are one integer, which is multiplied with or divided
// by a power of ten in double. So of one in four numbers of 17 digits it is not the nearest double, but a neighbour.
// Infinite where serde_json refuses a number as too large.
double serde_number(std::string_view number);

}  // namespace qkv::io
