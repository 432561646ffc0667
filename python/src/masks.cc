// causal(), window(), lengths() ... and `&`.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "arguments.h"
#include "values.h"

namespace qkv::python {
namespace {

std::optional<Align> take_optional_align(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return take_align(object, "align");
}

MaskValue causal(nb::handle align) { return {Mask::causal(take_optional_align(align)), {}, call_of("causal", align)}; }

MaskValue window(nb::handle left, nb::handle right, nb::handle align) {
  const std::int64_t before = take_whole(left, "left"), after = take_whole(right, "right");
  return {Mask::window(before, after, take_optional_align(align)), {}, call_of("window", left, right, align)};
}

MaskValue dilated(nb::handle left, nb::handle right, nb::handle step, nb::handle align) {
  const std::int64_t before = take_whole(left, "left"), after = take_whole(right, "right");
  const std::int64_t every = take_whole(step, "step");
  return {Mask::dilated(before, after, every, take_optional_align(align)),
          {},
          call_of("dilated", left, right, step, align)};
}

MaskValue prefix(nb::handle counts, nb::handle align) {
  Array array = take_integers(counts, "counts");
  return {Mask::prefix(array.view, take_optional_align(align)), {array}, call_of("prefix", counts, align)};
}

MaskValue lengths(nb::handle counts) {
  Array array = take_integers(counts, "counts");
  return {Mask::lengths(array.view), {array}, call_of("lengths", counts)};
}

MaskValue documents(nb::handle query_ids, nb::handle key_ids) {
  Array query = take_integers(query_ids, "query_ids");
  Array key = key_ids.is_none() ? query : take_integers(key_ids, "key_ids");
  return {Mask::documents(query.view, key.view), {query, key}, call_of("documents", query_ids, key_ids)};
}

MaskValue boolean(nb::handle visible) {
  Array array = take_booleans(visible, "visible");
  return {Mask::boolean(array.view), {array}, call_of("boolean", visible)};
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

const MaskValue& take_mask(nb::handle object, std::string_view name) {
  return take_kept<MaskValue>(object, name, "a mask such as qkv.causal() or qkv.boolean(array)");
}

Align take_align(nb::handle object, std::string_view name) {
  return take_choice<Align>(object, name, {{"top-left", Align::top_left}, {"bottom-right", Align::bottom_right}});
}

std::string text_of_calls(const nb::tuple& calls, std::string_view sign) {
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
    text +=
        name == kCompiled ? arguments + ".compiled()" : fmt::format("qkv.{}({})", name, is_long ? "..." : arguments);
  }
  return text;
}

nb::object called_again(nb::handle call) {
  const nb::object name = call[0];
  const nb::tuple arguments = nb::cast<nb::tuple>(nb::object(call[1]));
  if (nb::cast<std::string>(name) == kCompiled) return arguments[0].attr("compiled")();
  return nb::getattr(nb::module_::import_("qkv._qkv"), name)(*arguments);
}

void bind_masks(nb::module_& module) {
  nb::class_<MaskValue> type(module, "Mask",
                             "Who may attend to whom; masks combine by ``&``: a key is visible if every part lets it "
                             "through.\n\nMade by :func:`causal`, :func:`window`, :func:`dilated`, :func:`prefix`, "
                             ":func:`lengths`, :func:`documents` and :func:`boolean`. A mask keeps its arrays alive.");
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

  module.def("causal", &causal, "align"_a = nb::none(),
             nb::sig("def causal(align: typing.Literal['top-left', 'bottom-right'] | None = None) -> Mask"),
             "Keys ``j <= p``, where p is the query's position: its index, or with \"bottom-right\", and over a cache, "
             "its index plus key length minus query length.\n\n>>> import qkv\n>>> qkv.causal(\"bottom-right\")\n"
             "qkv.causal(\"bottom-right\")");
  module.def("window", &window, "left"_a, "right"_a, "align"_a = nb::none(),
             nb::sig("def window(left: int, right: int, align: typing.Literal['top-left', 'bottom-right'] | None = "
                     "None) -> Mask"),
             "Keys ``p - left <= j <= p + right``; -1 leaves that side open.\n\n>>> import qkv\n"
             ">>> qkv.causal() & qkv.window(2, 0)\nqkv.causal() & qkv.window(2, 0)");
  module.def("dilated", &dilated, "left"_a, "right"_a, "step"_a, "align"_a = nb::none(),
             nb::sig("def dilated(left: int, right: int, step: int, align: typing.Literal['top-left', 'bottom-right'] "
                     "| None = None) -> Mask"),
             "Keys ``p - left * step <= j <= p + right * step`` with ``p - j`` divisible by step (Longformer, 2020).");
  module.def(
      "prefix", &prefix, "counts"_a, "align"_a = nb::none(),
      nb::sig("def prefix(counts: ArrayOrSequence, align: typing.Literal['top-left', 'bottom-right'] | None = None) -> "
              "Mask"),
      "A prefix that every query sees, and causal after it: keys ``j < counts[sequence]`` or ``j <= p``. "
      "counts: int32 or int64 [batch].");
  module.def("lengths", &lengths, "counts"_a, nb::sig("def lengths(counts: ArrayOrSequence) -> Mask"),
             "Keys ``j < counts[sequence]``. counts: int32 or int64 [batch].\n\n>>> import qkv\n"
             ">>> qkv.lengths([3, 5])\nqkv.lengths(...)");
  module.def("documents", &documents, "query_ids"_a, "key_ids"_a = nb::none(),
             nb::sig("def documents(query_ids: ArrayOrSequence, key_ids: ArrayOrSequence | None = None) -> Mask"),
             "Keys of the query's own document: ids are equal. int32 or int64, broadcastable to [batch, q_len] and "
             "[batch, k_len]; packed [query tokens] and [key tokens]. Without key_ids those of the queries.");
  module.def("boolean", &boolean, "visible"_a, nb::sig("def boolean(visible: ArrayOrSequence) -> Mask"),
             "Keys where visible is true: bool or uint8, broadcastable to [batch, heads, q_len, k_len]. True means "
             "\"may attend\".");
}

}  // namespace qkv::python
