// Arguments of Python as values of C++; TypeError, naming the argument, for one that does not fit.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::python {

namespace nb = nanobind;

// A parameter of a function. None, too, reaches the function, which says what would be right.
inline auto operator""_a(const char* name, std::size_t) { return nb::arg(name).none(); }

// Becomes Python's TypeError.
struct TypeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "float", "list": how messages name what was given.
std::string name_of_type(nb::handle object);

// A list, a tuple or a range.
bool is_list(nb::handle object);

// TypeError: `name` must be `wanted`.
[[noreturn]] void refuse_type(nb::handle object, std::string_view name, std::string_view wanted);

double take_number(nb::handle object, std::string_view name);
std::int64_t take_whole(nb::handle object, std::string_view name);
// A number of threads, cut to the range of int.
int take_count(nb::handle object, std::string_view name);
// The same from 1; 0, the process's number, for None.
int take_threads(nb::handle object);
std::uint64_t take_seed(nb::handle object, std::string_view name);
bool take_flag(nb::handle object, std::string_view name);
std::string take_text(nb::handle object, std::string_view name);
// The same, as long as the object lives.
std::string_view text_of(nb::handle object, std::string_view name);
std::vector<std::int64_t> take_whole_numbers(nb::handle object, std::string_view name);
// Bytes that are not UTF-8 become U+FFFD.
nb::object give_text(const std::string& bytes);
// A list or another iterable of str; the message has the index of one that is none.
std::vector<std::string> take_texts(nb::handle object, std::string_view name);
// A list of lists of token ids.
std::vector<std::vector<std::int32_t>> take_id_lists(nb::handle object, std::string_view name);

template <class Number>
nb::list numbers_of(const std::vector<Number>& numbers) {
  nb::list list;
  for (const Number number : numbers) list.append(nb::int_(static_cast<long>(number)));
  return list;
}

// A dict of names and values, one after the other.
template <class... Rest>
nb::dict dict_of(const char* name, const auto& value, const Rest&... rest) {
  nb::dict made;
  if constexpr (sizeof...(rest) > 0) made = dict_of(rest...);
  made[name] = value;
  return made;
}

// One of a few names; what is raised lists them.
template <class Choice, std::size_t kCount>
Choice take_choice(nb::handle object, std::string_view name,
                   const std::pair<std::string_view, Choice> (&choices)[kCount]) {
  std::string wanted = "one of ";
  for (const auto& [known, choice] : choices) {
    wanted += (wanted.ends_with("\"") ? ", \"" : "\"") + std::string(known) + "\"";
  }
  if (!PyUnicode_Check(object.ptr())) refuse_type(object, name, wanted);
  const std::string given = take_text(object, name);
  for (const auto& [known, choice] : choices) {
    if (known == given) return choice;
  }
  throw std::invalid_argument(std::string(name) + " must be " + wanted + ", got \"" + given + "\"");
}

}  // namespace qkv::python
