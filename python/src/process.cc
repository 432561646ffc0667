// Threads and CPU targets of the process, and the program.
#include <string>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "commands.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "qkv/version.h"

namespace qkv::python {
namespace {

int run_program(nb::handle arguments) {
  std::vector<std::string> words = take_texts(arguments, "arguments");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const nb::gil_scoped_release released;
  return app::run_program(static_cast<int>(words.size()), pointers.data(), app::add_commands);
}

}  // namespace

void bind_process(nb::module_& module) {
  module.attr("__version__") = nb::str(version().data(), version().size());
  module.def("threads", [] { return threads(); }, "Threads used when a call does not name a number.");
  module.def(
      "set_threads",
      [](nb::handle count) {
        const std::int64_t number = count.is_none() ? 0 : take_whole(count, "count");
        if (number < !count.is_none() || number > kMaxThreads) throw std::invalid_argument("count must be 1 to 1024");
        set_threads(static_cast<int>(number));
      },
      "count"_a, nb::sig("def set_threads(count: int | None) -> None"),
      "Sets the number of threads of the process; None returns to the default.");
  module.def(
      "selected_target", [] { return nb::str(selected_target().c_str()); }, nb::sig("def selected_target() -> str"),
      "The CPU target that the kernels run on.");
  module.def(
      "select_target", [](nb::handle name) { select_target(take_text(name, "name")); }, "name"_a,
      nb::sig("def select_target(name: str) -> None"),
      "Selects a CPU target for the whole process (\"\": the best). Not while a computation runs. ValueError, "
      "listing the usable ones, for another name.");
  module.def("_run_program", &run_program, "arguments"_a,
             nb::sig("def _run_program(arguments: collections.abc.Sequence[str]) -> int"),
             "The program `qkv`, in this process; its exit code.");
}

}  // namespace qkv::python
