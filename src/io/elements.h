// The elements of a tensor in a file: how many bytes they take, and reading them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/byte_source.h"
#include "qkv/tensor.h"

namespace qkv::io {

// Bytes of the elements of this shape. Nothing if the product of the extents, zeros left out, exceeds 2^62 bytes: an
// extent of 0 must not excuse others that overflow.
std::optional<std::uint64_t> byte_count(std::span<const std::uint64_t> shape, Dtype dtype);

// The next elements of the source, which must have them. FormatError beginning with `where` if a bool is not 0 or 1.
Tensor read_elements(ByteSource& source, const Dims& shape, Dtype dtype, const std::string& where);

// The elements of a row-major view as bytes.
std::string_view bytes_of(const TensorView& view);

}  // namespace qkv::io
