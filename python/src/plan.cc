// plan() and verify(): what a call would do, and how exact its output is.
#include "arguments.h"
#include "bindings.h"
#include "call_options.h"
#include "calls.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/verify_attention.h"

namespace qkv::python {
namespace {

nb::object plan_of(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& keywords) {
  const Array q = take_dense(query, "query"), k = take_dense(key, "key"), v = take_dense(value, "value");
  const CallOptions call = take_options("plan", keywords, {});
  AttentionPlan made;
  run_released(0, [&] { made = plan(q.view, k.view, v.view, call.options); });
  nb::list remarks;
  for (const std::string& remark : made.remarks) remarks.append(nb::str(remark.c_str()));
  return result_of("Plan")(nb::str(made.kernel.c_str()), nb::str(made.target.c_str()), made.threads, made.workspace,
                           made.tiles, made.skipped_tiles, made.operations, made.bytes, nb::tuple(remarks));
}

nb::object verify(nb::handle query, nb::handle key, nb::handle value, nb::handle out, const nb::kwargs& keywords) {
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
  return result_of("Receipt")(receipt.rows, receipt.worst_error, receipt.largest_value, receipt.sequence, receipt.head,
                              receipt.query);
}

}  // namespace

void bind_plan(nb::module_& module) {
  module.def("plan", &plan_of, "query"_a, "key"_a, "value"_a, "keywords"_a,
             nb::sig("def plan(query: Array, key: Array, value: Array, " QKV_CALL_KEYWORDS ") -> Plan"),
             R"(What attention() with these arguments would do, before anything runs.

>>> import numpy, qkv
>>> x = numpy.zeros((4, 256, 64), "f")
>>> qkv.plan(x, x, x, mask=qkv.Mask.causal()).kernel
'prefill'
)");
  module.def("verify", &verify, "query"_a, "key"_a, "value"_a, "out"_a, "keywords"_a,
             nb::sig("def verify(query: Array, key: Array, value: Array, out: Array, *, rows: int = 64, rows_seed: int "
                     "= 1, " QKV_CALL_KEYWORDS ") -> Receipt"),
             R"(Recomputes some rows of an output of attention() in double precision, by plain loops.

rows: how many, drawn at random from rows_seed. The other keywords as attention() had them.

>>> import numpy, qkv
>>> x = numpy.ones((2, 8, 4), "f")
>>> qkv.verify(x, x, x, qkv.attention(x, x, x)).worst_error
0.0
)");
}

}  // namespace qkv::python
