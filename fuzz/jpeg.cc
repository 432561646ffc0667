// Any bytes as a JPEG.
#include "io/picture_formats.h"
#include "qkv/pictures.h"
#include "reader.h"

void read(std::string_view bytes) {
  if (!bytes.starts_with(qkv::io::kJpegMagic)) return;
  const qkv::Tensor picture = qkv::parse_picture(bytes, "fuzz");
  if (picture.size(0) * picture.size(1) > qkv::kMostPixels || picture.size(2) != 3) __builtin_trap();
}
