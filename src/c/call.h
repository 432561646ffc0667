// Common parts of the functions of qkv.h: exceptions become a status and the message of the thread, arguments are
// checked, and results lie in blocks that C frees.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "core/refuse.h"
#include "qkv/qkv.h"

namespace qkv::inline for_c {

// The status of the exception that is being handled, whose text becomes qkv_message().
int failed() noexcept;

template <class Body>
int answer(const Body& body) noexcept {
  try {
    body();
    return QKV_OK;
  } catch (...) {
    return failed();
  }
}

// `subject`: the function of qkv.h; `name`: its argument.
template <class T>
T& given(T* pointer, const char* subject, const char* name) {
  refuse_unless(pointer != nullptr, subject, "{} is NULL", name);
  return *pointer;
}

// Where a result goes: nothing yet.
template <class T>
T*& cleared(T** result, const char* subject, const char* name) {
  return given(result, subject, name) = nullptr;
}

std::string text_of(const char* text, const char* subject, const char* name);
std::vector<std::string> texts_of(const char* const* texts, std::int64_t count, const char* subject);

// One of the enumerators 0, 1 ... count - 1.
int one_of(int value, int count, const char* subject, const char* name);

// An Element for each item, make(item, its text in the block), and behind them the texts.
template <class Element, class Items, class Text, class Make>
Element* block_of(const Items& items, const Text& text, const Make& make) {
  std::size_t bytes = items.size() * sizeof(Element) + 1;
  for (const auto& item : items) bytes += std::strlen(text(item).c_str()) + 1;
  auto* const block = static_cast<Element*>(std::malloc(bytes));
  if (block == nullptr) throw std::bad_alloc();
  Element* element = block;
  char* place = reinterpret_cast<char*>(block + items.size());
  for (const auto& item : items) {
    const std::size_t size = std::strlen(text(item).c_str()) + 1;  // a text ends at its first NUL
    std::memcpy(place, text(item).c_str(), size);
    *element++ = make(item, place);
    place += size;
  }
  return block;
}

char* block_of(const std::string& text);

}  // namespace qkv::inline for_c
