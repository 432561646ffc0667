// Stands for png.cc and jpeg.cc in a build without pictures.
#include "io/pictures/picture_formats.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

[[noreturn]] void refuse_picture(const std::string& name) {
  throw FormatError(name + ": this build has no PNG/JPEG support; rebuild with -DQKV_PICTURES=ON");
}

}  // namespace

Tensor read_png(ByteSource&, const std::string& name) { refuse_picture(name); }

Tensor read_jpeg(ByteSource&, const std::string& name) { refuse_picture(name); }

}  // namespace qkv::io
