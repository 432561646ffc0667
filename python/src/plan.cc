// plan() and verify(): the plan of a call, and how exact an output is.
#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/verify_attention.h"

namespace qkv::python {
namespace {

nb::object plan_of(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& given) {
  const Array q = take_dense(query, "query"), k = take_dense(key, "key"), v = take_dense(value, "value");
  Keywords keywords("plan", given);
  const CallOptions call = take_options(keywords);
  const AttentionPlan made = plan(q.view, k.view, v.view, call.options);
  nb::list remarks;
  for (const std::string& remark : made.remarks) remarks.append(nb::str(remark.c_str()));
  return result_of("Plan")(nb::str(made.kernel.c_str()), nb::str(made.target.c_str()), made.threads, made.workspace,
                           made.tiles, made.skipped_tiles, made.operations, made.bytes, nb::tuple(remarks));
}

nb::object verify(nb::handle query, nb::handle key, nb::handle value, nb::handle out, const nb::kwargs& given) {
  const Array q = take_dense(query, "query"), k = take_dense(key, "key"), v = take_dense(value, "value");
  const Array output = take_floats(out, "out");
  std::int64_t rows = 64;
  std::optional<std::uint64_t> seed;
  Keywords keywords("verify", given);
  keywords.read("rows", rows, "rows_seed", seed);
  const CallOptions call = take_options(keywords);
  const double operations = 4 * static_cast<double>(rows) * static_cast<double>(k.view.element_count());
  const AttentionReceipt receipt = run_released(operations, [&] {
    return verify_attention(q.view, k.view, v.view, output.view, call.options, rows, seed.value_or(1));
  });
  return result_of("Receipt")(receipt.rows, receipt.worst_error, receipt.largest_value, receipt.sequence, receipt.head,
                              receipt.query);
}

}  // namespace

void bind_plan(nb::module_& module) {
  Described(module)
      .def("plan", &plan_of, "query"_a, "key"_a, "value"_a, "keywords"_a)
      .def("verify", &verify, "query"_a, "key"_a, "value"_a, "out"_a, "keywords"_a);
}

}  // namespace qkv::python
