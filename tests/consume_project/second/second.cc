// A library of the project that uses ours, too.
#include <qkv/version.h>

#include <string_view>

std::string_view version_in_second() { return qkv::version(); }
