// The class Mask: a static method for each kind of src/core/mask_kinds.h, and `&`.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "arguments.h"
#include "attention/options/mask_kinds.h"
#include "values.h"

namespace qkv::python {
namespace {

std::optional<Align> take_optional_align(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return take_align(object, "align");
}

// The parameters of a kind, as they stand in its signature.
struct Parameter {
  std::string name;
  const char* type;
  bool is_optional;
};

std::vector<Parameter> parameters_of(const MaskDescription& kind) {
  std::vector<Parameter> list;
  for (const MaskNumber& number : kind.numbers) list.push_back({number.name, "int", false});
  for (const MaskArray& array : kind.arrays) {
    const bool is_second = array.of == MaskArrayOf::keys;  // those of the queries, if it is not given
    list.push_back({array.name, is_second ? "ArrayOrSequence | None" : "ArrayOrSequence", is_second});
  }
  if (kind.is_aligned) list.push_back({"align", "typing.Literal['top-left', 'bottom-right'] | None", true});
  return list;
}

// What was given of them, in their order; None for what was not.
nb::list arguments_of(const MaskDescription& kind, const nb::args& args, const nb::kwargs& keywords) {
  const std::vector<Parameter> parameters = parameters_of(kind);
  if (args.size() > parameters.size()) {
    throw TypeError(fmt::format("{}() takes {} arguments, got {}", kind.name, parameters.size(), args.size()));
  }
  nb::list given;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const Parameter& parameter = parameters[n];
    const bool by_name = keywords.contains(parameter.name.c_str());
    if (by_name && n < args.size()) {
      throw TypeError(fmt::format("{}() got {} twice", kind.name, parameter.name));
    }
    if (!by_name && n >= args.size() && !parameter.is_optional) {
      throw TypeError(fmt::format("{}() needs {}", kind.name, parameter.name));
    }
    given.append(n < args.size() ? nb::object(args[n])
                 : by_name       ? nb::object(keywords[parameter.name.c_str()])
                                 : nb::none());
  }
  for (const auto& [key, value] : keywords) {
    const std::string_view name = text_of(key, "a keyword");
    if (std::ranges::find(parameters, name, &Parameter::name) == parameters.end()) {
      throw TypeError(fmt::format("{}() got an unexpected keyword argument '{}'", kind.name, name));
    }
  }
  return given;
}

MaskValue made(const MaskDescription& kind, const nb::list& given) {
  Mask::Part part{.kind = kind.kind};
  std::vector<Array> arrays;
  std::size_t at = 0;
  for (std::size_t n = 0; n < kind.numbers.size(); ++n) part.numbers[n] = take_whole(given[at++], kind.numbers[n].name);
  for (std::size_t n = 0; n < kind.arrays.size(); ++n) {
    const nb::object object = given[at++];
    if (n > 0 && object.is_none()) continue;
    const auto& [name, of, form] = kind.arrays[n];
    arrays.push_back(of == MaskArrayOf::pairs ? take_booleans(object, name) : take_integers(object, name));
    part.arrays[n] = arrays.back().view;
  }
  const std::optional<Align> align = kind.is_aligned ? take_optional_align(given[at]) : std::nullopt;
  return {Mask(std::move(part), align), std::move(arrays), nb::make_tuple(nb::make_tuple(kind.name, nb::tuple(given)))};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string signature_of(const MaskDescription& kind) {
  std::string list;
  for (const auto& [name, type, is_optional] : parameters_of(kind)) {
    list += fmt::format("{}{}: {}{}", list.empty() ? "" : ", ", name, type, is_optional ? " = None" : "");
  }
  return fmt::format("def {}({}) -> Mask", kind.name, list);
}

std::string documentation_of(const MaskDescription& kind) {
  std::string text = fmt::format("K{}.", kind.rule + 1);
  for (const MaskArray& array : kind.arrays) text += fmt::format(" {}: {}.", array.name, array.form);
  for (const char* type : {"i32", "i64", "u8"})
    replace_all(text, type, fmt::format("{}int{}", type[0] == 'u' ? "u" : "", type + 1));
  return text;
}

MaskValue joined_masks(const MaskValue& a, const MaskValue& b) { return joined(a.value & b.value, a, b); }

MaskValue both(nb::handle one, nb::handle other) {
  constexpr const char* kName = "an operand of &";
  return joined_masks(take_mask(one, kName), take_mask(other, kName));
}

// "2", "\"top-left\""; empty for None.
std::string text_of_argument(nb::handle argument) {
  if (argument.is_none()) return "";
  if (PyUnicode_Check(argument.ptr())) return fmt::format("\"{}\"", text_of(argument, "an argument"));
  return nb::cast<std::string>(nb::repr(argument));
}

constexpr std::string_view kCompiled = "compiled";

}  // namespace

MaskValue take_mask(nb::handle object, std::string_view name) {
  if (PyUnicode_Check(object.ptr())) {
    return take_choice<MaskValue>(object, name, {{"causal", {Mask::causal(), {}, call_of("causal")}}});
  }
  if (!nb::isinstance<MaskValue>(object) && nb::hasattr(object, "__dlpack__")) {
    Array array = take_booleans(object, name);
    return {Mask::boolean(array.view), {array}, call_of("boolean", object)};
  }
  return take_kept<MaskValue>(object, name, "a mask such as qkv.Mask.causal(), an array of bool, or \"causal\"");
}

Align take_align(nb::handle object, std::string_view name) {
  return take_choice<Align>(object, name, {{"top-left", Align::top_left}, {"bottom-right", Align::bottom_right}});
}

std::string text_of_calls(nb::handle type, const nb::tuple& calls, std::string_view sign) {
  std::string text;
  for (const nb::handle call : calls) {
    const std::string name = nb::cast<std::string>(nb::object(call[0]));
    std::string arguments;
    bool is_long = false;
    for (const nb::handle argument : nb::object(call[1])) {
      is_long = is_long || is_list(argument) || nb::hasattr(argument, "__dlpack__");
      const std::string one = text_of_argument(argument);
      if (!one.empty()) arguments += (arguments.empty() ? "" : ", ") + one;
    }
    if (!text.empty()) text += sign;
    text += name == kCompiled ? arguments + ".compiled()"
                              : fmt::format("qkv.{}.{}({})", nb::cast<std::string>(type.attr("__name__")), name,
                                            is_long ? "..." : arguments);
  }
  return text;
}

nb::object called_again(nb::handle type, nb::handle call) {
  const nb::object name = call[0];
  const nb::tuple arguments = nb::cast<nb::tuple>(nb::object(call[1]));
  if (nb::cast<std::string>(name) == kCompiled) return arguments[0].attr("compiled")();
  return nb::getattr(type, name)(*arguments);
}

void bind_masks(nb::module_& module) {
  nb::class_<MaskValue> type(
      module, "Mask",
      "Who may attend to whom; masks combine by ``&``: a key is visible if every part lets it through. Query i has\n"
      "position p = i, or with align=\"bottom-right\", and over a cache, i plus key length minus query length; key j "
      "has\n"
      "position j. A mask keeps its arrays alive.\n\n>>> import qkv\n>>> qkv.Mask.causal() & qkv.Mask.window(2, 0)\n"
      "qkv.Mask.causal() & qkv.Mask.window(2, 0)\n>>> qkv.Mask.lengths([3, 5])\nqkv.Mask.lengths(...)");
  add_values(type, " & ", &joined_masks);
  type.def("__and__", &both, "other"_a, nb::sig("def __and__(self, other: Mask) -> Mask"))
      .def("__rand__", &both, "other"_a, nb::sig("def __rand__(self, other: Mask) -> Mask"))
      .def(
          "compiled",
          [](nb::handle self, nb::handle threads) {
            const MaskValue& mask = take_mask(self, "self");
            const int count = take_count(threads, "threads");
            return MaskValue{mask.value.compiled(count), mask.arrays, call_of(kCompiled.data(), self)};
          },
          "threads"_a = 0, nb::sig("def compiled(self, threads: int = 0) -> Mask"),
          "The same mask with its boolean arrays and document ids read once, for use in many calls: they must not "
          "change "
          "afterwards.");

  for (const MaskDescription& kind : mask_kinds()) {
    type.def_static(
        kind.name,
        [&kind](const nb::args& args, const nb::kwargs& keywords) {
          return made(kind, arguments_of(kind, args, keywords));
        },
        nb::sig(signature_of(kind).c_str()), documentation_of(kind).c_str());
  }
}

}  // namespace qkv::python
