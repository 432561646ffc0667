// Status, message and blocks of qkv.h.
#include "c/call.h"

#include <stdexcept>

#include "io/files/text.h"
#include "qkv/error.h"
#include "qkv/threads.h"
#include "qkv/version.h"

namespace qkv::inline for_c {
namespace {

thread_local std::string message;

int status_with(int status, const char* text) {
  message = text;
  return status;
}

int status_of_current() {
  try {
    throw;
  } catch (const FormatError& error) {
    return status_with(QKV_FORMAT, error.what());
  } catch (const IoError& error) {
    return status_with(QKV_IO, error.what());
  } catch (const std::invalid_argument& error) {
    return status_with(QKV_INVALID, error.what());
  } catch (const std::bad_alloc&) {
    return status_with(QKV_NO_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return status_with(QKV_INTERNAL, error.what());
  } catch (...) {
    return status_with(QKV_INTERNAL, "an exception of on_text");
  }
}

}  // namespace

int failed() noexcept {
  try {
    return status_of_current();
  } catch (...) {
    message.clear();  // there is no room for it
    return QKV_NO_MEMORY;
  }
}

std::string text_of(const char* text, const char* subject, const char* name) {
  std::string own = &given(text, subject, name);
  refuse_unless(io::code_points_in(own).has_value(), subject, "{} is not UTF-8: {}", name, io::quote(own));
  return own;
}

std::vector<std::string> texts_of(const char* const* texts, std::int64_t count, const char* subject) {
  refuse_unless(count >= 0, subject, "count is {}", count);
  refuse_unless(texts != nullptr || count == 0, subject, "texts is NULL, count is {}", count);
  std::vector<std::string> own;
  for (std::int64_t i = 0; i < count; ++i) {
    own.push_back(text_of(texts[i], subject, fmt::format("texts[{}]", i).c_str()));
  }
  return own;
}

int one_of(int value, int count, const char* subject, const char* name) {
  refuse_unless(value >= 0 && value < count, subject, "{} is {}; it must be from 0 to {}", name, value, count - 1);
  return value;
}

char* block_of(const std::string& text) {
  char* const block = static_cast<char*>(std::malloc(text.size() + 1));
  if (block == nullptr) throw std::bad_alloc();
  std::memcpy(block, text.c_str(), text.size() + 1);
  return block;
}

}  // namespace qkv::inline for_c

using namespace qkv;

const char* qkv_message() { return message.c_str(); }

const char* qkv_version() { return version().data(); }

int qkv_set_threads(int count) {
  return answer([&] { set_threads(count); });
}

void qkv_free(void* block) { std::free(block); }
