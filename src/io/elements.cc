// Reads the elements of a tensor from a byte source.
#include "io/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/stop.h"
#include "qkv/error.h"

namespace qkv::io {

static_assert(std::endian::native == std::endian::little,
              "files hold little-endian elements, which are read as they are");

std::optional<std::uint64_t> byte_count(std::span<const std::uint64_t> shape, Dtype dtype) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62;
  std::uint64_t bytes = size_of(dtype);
  for (const std::uint64_t extent : shape) {
    if (extent == 0) continue;
    if (extent > kLimit / bytes) return std::nullopt;
    bytes *= extent;
  }
  return std::find(shape.begin(), shape.end(), 0u) == shape.end() ? bytes : 0;
}

Tensor read_elements(ByteSource& source, const Dims& shape, Dtype dtype, const std::string& where) {
  Tensor tensor = Tensor::uninitialized(shape, dtype);
  source.read(tensor.view().bytes(), bytes_of(tensor).size());
  if (dtype == Dtype::boolean) {  // any other byte in a C++ bool is undefined behaviour
    const std::string_view bytes = bytes_of(tensor);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i % static_cast<std::size_t>(kStopWork) == 0) check_stop();
      if (const auto byte = static_cast<unsigned char>(bytes[i]); byte > 1) {
        throw FormatError(fmt::format("{}: element {} is the byte {}, but a bool must be 0 or 1", where, i, byte));
      }
    }
  }
  return tensor;
}

std::string_view bytes_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.bytes()),
          static_cast<std::size_t>(view.element_count()) * size_of(view.dtype())};
}

}  // namespace qkv::io
