// How the library refuses arguments: one line that names the function or class, what is wrong and what would be right.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace qkv::inline core {

// "SUBJECT: TEXT", a function or class of the library; a program says the text of a command or an option of its own.
class Refusal : public std::invalid_argument {
 public:
  Refusal(std::string_view subject, std::string_view text)
      : invalid_argument(fmt::format("{}: {}", subject, text)), begin_(subject.size() + 2) {}
  const char* text() const { return what() + begin_; }

 private:
  std::size_t begin_;
};

// Refusal.
template <class... Args>
[[noreturn]] void refuse(std::string_view subject, fmt::format_string<Args...> text, Args&&... args) {
  throw Refusal(subject, fmt::format(text, std::forward<Args>(args)...));
}

// std::invalid_argument "PATH: TEXT": a file or folder that is part of what is wrong.
template <class... Args>
[[noreturn]] void refuse_path(std::string_view path, fmt::format_string<Args...> text, Args&&... args) {
  throw std::invalid_argument(fmt::format("{}: {}", path, fmt::format(text, std::forward<Args>(args)...)));
}

template <class... Args>
void refuse_unless(bool holds, std::string_view subject, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) refuse(subject, text, std::forward<Args>(args)...);
}

}  // namespace qkv::inline core
