// Deflates by zlib.
#include <zlib.h>

#include <new>

#include "explain/show/report_page.h"

namespace qkv::inline explaining {

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string smaller(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(smaller.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  if (result != Z_OK) throw std::bad_alloc();  // there is room for all that it writes
  smaller.resize(size);
  return smaller;
}

}  // namespace qkv::inline explaining
