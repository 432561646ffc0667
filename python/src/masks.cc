// Masks: a static method of qkv.Mask for each kind of src/attention/options/mask_kinds.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "arguments.h"
#include "attention/options/mask_kinds.h"
#include "bindings.h"
#include "values.h"

namespace qkv::python {
namespace {

constexpr const char* kMask = "a mask such as qkv.Mask.causal(), an array of bool, or \"causal\"";

// Kept by qkv.Mask.compiled().
struct CompiledMask {
  MaskValue compiled;
  nb::object mask;
};

std::optional<Align> take_align(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return take_choice<Align>(object, "align", {{"top-left", Align::top_left}, {"bottom-right", Align::bottom_right}});
}

// The checked arguments of a mask, bias or score for qkv.options, with lists as arrays.
nb::tuple checked(nb::handle kind, nb::handle name, nb::handle arguments) {
  nb::list given(arguments);
  const std::string_view of = text_of(kind, "kind"), method = text_of(name, "name");
  if (of == "Mask") {
    mask_part(method, given);
  } else if (of == "Bias") {
    bias_part(method, given, &take_values);
  } else {
    score_part(method, given, &take_values);
  }
  return nb::tuple(given);
}

// The operand of an operator of Mask or Bias; what is an array, or a name, becomes the call that makes it.
nb::object operand(nb::handle kind, nb::handle name, nb::handle object) {
  const bool is_mask = text_of(kind, "kind") == "Mask";
  const std::string_view called = text_of(name, "name");
  is_mask ? void(take_mask(object, called)) : void(take_bias(object, called, &take_values));
  const nb::module_ options = nb::module_::import_("qkv.options");
  return options.attr("parts_of")(nb::object(options.attr(kind)), object);
}

}  // namespace

nb::object parts_of(nb::handle object, const char* kind) {
  static auto& types = *new std::map<std::string_view, nb::object>();
  nb::object& type = types[kind];
  if (!type.is_valid()) type = nb::module_::import_("qkv.options").attr(kind);
  if (!nb::isinstance(object, type)) return {};
  return nb::getattr(object, "parts", nb::object());
}

MaskValue mask_part(std::string_view name, nb::list& arguments) {
  if (name == "compiled") return nb::cast<const CompiledMask&>(nb::object(arguments[1])).compiled;
  const auto kind = std::ranges::find(mask_kinds(), name, &MaskDescription::name);
  if (kind == mask_kinds().end()) throw std::invalid_argument(fmt::format("there is no mask {}", name));
  const std::size_t count = kind->numbers.size() + kind->arrays.size() + (kind->is_aligned ? 1 : 0);
  if (arguments.size() != count) throw TypeError(fmt::format("{} takes {} arguments", name, count));
  MaskValue made;
  Mask::Part part{.kind = kind->kind};
  std::size_t at = 0;
  for (const MaskNumber& number : kind->numbers) {
    part.numbers[at] = take_whole(nb::object(arguments[at]), number.name);
    ++at;
  }
  for (std::size_t n = 0; n < kind->arrays.size(); ++n, ++at) {
    const MaskArray& array = kind->arrays[n];
    if (n > 0 && nb::object(arguments[at]).is_none()) continue;
    arguments[at] = array_of(nb::object(arguments[at]), array.name);
    const nb::object object = arguments[at];
    made.arrays.push_back(array.of == MaskArrayOf::pairs ? take_booleans(object, array.name)
                                                         : take_integers(object, array.name));
    part.arrays[n] = made.arrays.back().view;
  }
  made.value = Mask(std::move(part), kind->is_aligned ? take_align(nb::object(arguments[at])) : std::nullopt);
  return made;
}

MaskValue take_mask(nb::handle object, std::string_view name) {
  MaskValue made;
  if (PyUnicode_Check(object.ptr())) {
    const std::string given = take_text(object, name);
    if (given != "causal") throw std::invalid_argument(fmt::format("{} must be {}, got \"{}\"", name, kMask, given));
    made.value = Mask::causal();
    return made;
  }
  const nb::object parts = parts_of(object, "Mask");
  if (parts.is_valid()) {
    for (const nb::handle part : parts) {
      nb::list arguments{nb::object(part[1])};
      made.value = made.value & keep(mask_part(text_of(nb::object(part[0]), name), arguments), made.arrays);
    }
    return made;
  }
  if (!nb::hasattr(object, "__dlpack__")) refuse_type(object, name, kMask);
  made.arrays.push_back(take_booleans(object, name));
  made.value = Mask::boolean(made.arrays.back().view);
  return made;
}

void bind_masks(nb::module_& module) {
  Described(module)
      .def("_checked", &checked, "kind"_a, "name"_a, "arguments"_a)
      .def("_parts", &operand, "kind"_a, "name"_a, "operand"_a);
  add_class<CompiledMask>(module, "_CompiledMask")
      .def(
          "__init__",
          [](CompiledMask* place, nb::handle mask, nb::handle threads) {
            MaskValue read = take_mask(mask, "self");
            read.value = read.value.compiled(take_threads(threads));
            new (place) CompiledMask{std::move(read), nb::borrow(mask)};
          },
          "mask"_a, "threads"_a)
      .def("__reduce__", [](nb::handle self) {
        const auto& compiled = nb::cast<const CompiledMask&>(self);
        return nb::make_tuple(nb::object(self.attr("__class__")), nb::make_tuple(compiled.mask, nb::none()));
      });
}

}  // namespace qkv::python
