// Between a library of C, which gives up by longjmp, and the exceptions around it. A reader holds one DecoderFailure;
// callbacks of the library write into it what went wrong, then jump. No frame that is jumped over holds anything with a
// destructor, and no exception passes through the library.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <string>

#include "io/files/byte_source.h"
#include "qkv/error.h"

namespace qkv::io {

class DecoderFailure {
 public:
  using Message = std::array<char, 256>;

  Message& message() { return message_; }

  // Calls f() and keeps its exception; false if there was one.
  template <class F>
  bool keep_exception(const F& f) noexcept {
    try {
      f();
      return true;
    } catch (...) {
      exception_ = std::current_exception();
      return false;
    }
  }

  // After the jump.
  [[noreturn]] void raise(const std::string& subject) const {
    if (exception_) std::rethrow_exception(exception_);
    throw FormatError(subject + ": " + message_.data());
  }

 private:
  Message message_{};
  std::exception_ptr exception_;
};

}  // namespace qkv::io
