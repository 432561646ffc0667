// How the library refuses arguments: one line that names the function or class, what is wrong and what would be right.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace qkv::inline core {

// std::invalid_argument "SUBJECT: TEXT".
template <class... Args>
[[noreturn]] void refuse(std::string_view subject, fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument(std::string(subject) + ": " + fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void refuse_unless(bool holds, std::string_view subject, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) refuse(subject, text, std::forward<Args>(args)...);
}

}  // namespace qkv::inline core
