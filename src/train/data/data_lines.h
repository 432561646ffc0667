// Lines of a training's files.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/stop.h"
#include "qkv/error.h"
#include "qkv/text_lines.h"

namespace qkv::training {

[[noreturn]] inline void refuse_line(const std::string& path, std::int64_t line, const std::string& fault) {
  throw FormatError(fmt::format("{}: line {} {}", path, line, fault));
}

// Calls f(line, its number from 1, whether it is the last one) for each line as text_lines.h has it.
inline void for_each_line(const std::string& bytes, const std::string& path, const TextLineOptions& options,
                          const std::function<void(const std::string& line, std::int64_t number, bool last)>& f) {
  std::int64_t number = 0;
  for (std::string_view rest = bytes; !rest.empty();) {
    check_stop();
    const std::size_t end = rest.find('\n');
    const std::string line = text_of_line(rest.substr(0, end), ++number, options, path);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    f(line, number, rest.empty());
  }
}

}  // namespace qkv::training
