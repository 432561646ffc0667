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

void set_thread_count(nb::handle count) {
  const std::int64_t number = count.is_none() ? 0 : take_whole(count, "count");
  if (number < !count.is_none() || number > kMaxThreads) throw std::invalid_argument("count must be 1 to 1024");
  set_threads(static_cast<int>(number));
}

}  // namespace

void bind_process(nb::module_& module) {
  module.attr("__version__") = nb::str(version().data(), version().size());
  Described(module)
      .def("threads", [] { return threads(); })
      .def("set_threads", &set_thread_count, "count"_a)
      .def("selected_target", [] { return nb::str(selected_target().c_str()); })
      .def(
          "select_target", [](nb::handle name) { select_target(take_text(name, "name")); }, "name"_a)
      .def("_run_program", &run_program, "arguments"_a);
}

}  // namespace qkv::python
