// plan() and verify(): what a call would do, and how exact its output is.
#include <fmt/format.h>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "inputs/call_options.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/verify_attention.h"

namespace qkv::python {
namespace {

bool knows_nothing(std::string_view, nb::handle) { return false; }

AttentionPlan plan_of(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& keywords) {
  const Array q = take_dense(query, "query"), k = take_dense(key, "key"), v = take_dense(value, "value");
  const CallOptions call = take_options("plan", keywords, knows_nothing);
  AttentionPlan made;
  run_released(0, [&] { made = plan(q.view, k.view, v.view, call.options); });
  return made;
}

AttentionReceipt verify(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                        const nb::kwargs& keywords) {
  const Array q = take_dense(query, "query"), k = take_dense(key, "key"), v = take_dense(value, "value");
  const Array output = take_floats(out, "out");
  std::int64_t rows = 64;
  std::uint64_t rows_seed = 1;
  const CallOptions call = take_options("verify", keywords, [&](std::string_view name, nb::handle given) {
    if (name == "rows") {
      rows = take_whole(given, name);
    } else if (name == "rows_seed") {
      rows_seed = take_seed(given, name);
    } else {
      return false;
    }
    return true;
  });
  AttentionReceipt receipt;
  run_released(0,
               [&] { receipt = verify_attention(q.view, k.view, v.view, output.view, call.options, rows, rows_seed); });
  return receipt;
}

std::string text_of(const AttentionPlan& plan) {
  return fmt::format(
      "Plan(kernel='{}', target='{}', threads={}, workspace={}, tiles={}, skipped_tiles={}, "
      "operations={}, bytes={}, remarks={})",
      plan.kernel, plan.target, plan.threads, plan.workspace, plan.tiles, plan.skipped_tiles, plan.operations,
      plan.bytes, plan.remarks.size());
}

nb::tuple remarks_of(const AttentionPlan& plan) {
  nb::list remarks;
  for (const std::string& remark : plan.remarks) remarks.append(nb::str(remark.c_str()));
  return nb::tuple(remarks);
}

std::string text_of(const AttentionReceipt& receipt) {
  return fmt::format("Receipt(rows={}, worst_error={}, largest_value={}, sequence={}, head={}, query={})", receipt.rows,
                     receipt.worst_error, receipt.largest_value, receipt.sequence, receipt.head, receipt.query);
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<AttentionPlan>(module, "Plan", "What a call of attention() would do.")
      .def_prop_ro(
          "kernel", [](const AttentionPlan& p) { return nb::str(p.kernel.c_str()); },
          nb::sig("def kernel(self) -> str"), "\"prefill\", \"decode\", \"prefill and decode\" or \"none\".")
      .def_prop_ro(
          "target", [](const AttentionPlan& p) { return nb::str(p.target.c_str()); },
          nb::sig("def target(self) -> str"), "The CPU instructions.")
      .def_prop_ro(
          "threads", [](const AttentionPlan& p) { return p.threads; }, "Threads that have work to do.")
      .def_prop_ro(
          "workspace", [](const AttentionPlan& p) { return p.workspace; }, "Bytes besides inputs and outputs.")
      .def_prop_ro(
          "tiles", [](const AttentionPlan& p) { return p.tiles; }, "Tiles of all heads.")
      .def_prop_ro(
          "skipped_tiles", [](const AttentionPlan& p) { return p.skipped_tiles; },
          "Of these, those that are never computed: no query sees a key in them.")
      .def_prop_ro(
          "operations", [](const AttentionPlan& p) { return p.operations; },
          "Multiplications and additions in the tiles that are computed.")
      .def_prop_ro(
          "bytes", [](const AttentionPlan& p) { return p.bytes; }, "Of inputs and outputs, each once.")
      .def_prop_ro("remarks", &remarks_of, nb::sig("def remarks(self) -> tuple[str, ...]"),
                   "Why this is not the fastest possible path, one line each.")
      .def(
          "__repr__", [](const AttentionPlan& p) { return nb::str(text_of(p).c_str()); },
          nb::sig("def __repr__(self) -> str"));

  nb::class_<AttentionReceipt>(module, "Receipt", "How exact an output is.")
      .def_prop_ro(
          "rows", [](const AttentionReceipt& r) { return r.rows; }, "Rows that were recomputed.")
      .def_prop_ro(
          "worst_error", [](const AttentionReceipt& r) { return r.worst_error; },
          "The largest ``|out - exact|`` over their elements.")
      .def_prop_ro(
          "largest_value", [](const AttentionReceipt& r) { return r.largest_value; },
          "The largest ``|exact|``, to set the error beside.")
      .def_prop_ro(
          "sequence", [](const AttentionReceipt& r) { return r.sequence; }, "Of the worst error.")
      .def_prop_ro(
          "head", [](const AttentionReceipt& r) { return r.head; }, "Of the worst error.")
      .def_prop_ro(
          "query", [](const AttentionReceipt& r) { return r.query; }, "Of the worst error.")
      .def(
          "__repr__", [](const AttentionReceipt& r) { return nb::str(text_of(r).c_str()); },
          nb::sig("def __repr__(self) -> str"));

  module.def("plan", &plan_of, "query"_a, "key"_a, "value"_a, "keywords"_a,
             nb::sig("def plan(query: Array, key: Array, value: Array, *, " QKV_CALL_KEYWORDS ") -> Plan"),
             R"(What attention() with these arguments would do, before anything runs.

>>> import numpy, qkv
>>> x = numpy.zeros((4, 256, 64), "f")
>>> qkv.plan(x, x, x, mask=qkv.Mask.causal()).kernel
'prefill'
)");
  module.def("verify", &verify, "query"_a, "key"_a, "value"_a, "out"_a, "keywords"_a,
             nb::sig("def verify(query: Array, key: Array, value: Array, out: Array, *, " QKV_CALL_KEYWORDS
                     ", rows: int = 64, rows_seed: int = 1) -> Receipt"),
             R"(Recomputes some rows of an output of attention() in double precision, by plain loops.

rows: how many, drawn at random from rows_seed. The other keywords as attention() had them.

>>> import numpy, qkv
>>> x = numpy.ones((2, 8, 4), "f")
>>> qkv.verify(x, x, x, qkv.attention(x, x, x)).worst_error
0.0
)");
}

}  // namespace qkv::python
