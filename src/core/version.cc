// The version that CMakeLists.txt states.
#include "qkv/version.h"

namespace qkv {

std::string_view version() { return QKV_VERSION; }

}  // namespace qkv
