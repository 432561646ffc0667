// Stands for deflate.cc: a page that computes asks for every weight, and for no maps.
#include "explain/observe/require.h"
#include "explain/show/report_page.h"

namespace qkv::inline explaining {

std::string deflated(std::string_view) {
  refuse("explain", "maps of heads cannot be made here: this build is without zlib; qkv in a terminal makes them");
}

}  // namespace qkv::inline explaining
