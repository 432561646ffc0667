// The program: finds the subcommand, and turns whatever goes wrong into one line on standard error and an exit code.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "commands.h"
#include "program.h"
#include "qkv/error.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "signals.h"
#include "usage_message.h"

namespace qkv::app {
namespace {

enum ExitCode { kOk = 0, kInternal = 1, kUsage = 2, kBadData = 3, kInputOutput = 4 };

// Memory comes from one heap that begins wide, on large pages, and never shrinks: to have the kernel clear pages one by
// one took a third of the time to a first embedding, and to have it clear them again an eighth of a training's.
void widen_heap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  constexpr int kWidth = 512 << 20, kUsualStep = 128 << 10;  // of addresses: what is not touched takes no memory
  constexpr std::uintptr_t kLargePage = 1 << 21;
  const auto end_of_heap = [] { return reinterpret_cast<std::uintptr_t>(sbrk(0)); };
  const std::uintptr_t begin = (end_of_heap() + kLargePage - 1) / kLargePage * kLargePage;
  mallopt(M_TOP_PAD, kWidth);
  void* volatile block = std::malloc(kLargePage);  // more than the heap has so far; nothing where the system refuses
  std::free(block);
  mallopt(M_TOP_PAD, kUsualStep);
  if (const std::uintptr_t end = end_of_heap(); begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
}

// A mistake in the environment is a mistake in usage; it is found before any work.
void check_environment() {
  try {
    selected_target();
    threads();
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

void flush_output() {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (!failed) return;
  throw IoError("standard output: " + (errno != 0 ? std::system_category().message(errno) : "cannot write"));
}

void add_version(CLI::App& command) {
  command.set_version_flag("--version", "qkv " QKV_VERSION, "Print the version and exit");
  for (CLI::App* subcommand : command.get_subcommands([](const CLI::App*) { return true; })) add_version(*subcommand);
}

// The innermost subcommand that was typed.
CLI::App& typed_command(CLI::App& command) {
  const auto typed = command.get_subcommands();
  return typed.empty() ? command : typed_command(*typed.back());
}

// Messages carry what users typed and files hold: still one line, and nothing that a terminal would obey.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

void execute(CLI::App& program, int argc, char** argv) {
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    program.exit(success);  // --help or --version, on standard output
  }
  flush_output();
}

int run(int argc, char** argv) {
  CLI::App program("Exact attention on ordinary CPUs, computed fast and explained.", "qkv");
  const auto fail = [&](int code, std::string_view message) {
    const CLI::App& command = typed_command(program);
    const std::string own = command.get_name() + ": ";  // a function of the library may have the command's name
    if (message.starts_with(own)) message.remove_prefix(own.size());
    std::cerr << one_line(full_name(command) + ": " + std::string(message)) << '\n';
    return code;
  };
  try {
    add_embed(program);
    add_explain(program);
    add_attend(program);
    add_info(program);
    add_plan(program);
    add_bench(program);
    add_tokenizer(program);
    add_train(program);
    add_translate(program);
    add_version(program);
    program.require_subcommand(1);
    program.footer(
        "Exit codes: 0 success, 1 internal error, 2 command line, 3 data, 4 operating system,\n"
        "130 Ctrl-C, 143 SIGTERM (docs/exit_codes.md).");
    program.parse_complete_callback(check_environment);
    watch_signals();
    execute(program, argc, argv);
    return kOk;
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = typed_command(program);
    if (command.get_require_subcommand_min() > 0 && program.remaining(true).empty()) {
      std::cerr << program.help();
      return kUsage;
    }
    return fail(kUsage, usage_message(program, command, error));
  } catch (const std::invalid_argument& error) {
    return fail(kBadData, error.what());
  } catch (const FormatError& error) {
    return fail(kBadData, error.what());
  } catch (const IoError& error) {
    return fail(kInputOutput, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(kInputOutput, error.path1().string() + ": " + error.code().message());
  } catch (const std::system_error& error) {
    return fail(kInputOutput, "system error: " + error.code().message());
  } catch (const std::bad_alloc&) {
    return fail(kInputOutput, "not enough memory for arrays of these sizes");
  } catch (const Stopped&) {
    return fail(interrupted_exit_code(), interrupted_message());
  } catch (const std::exception& error) {
    return fail(kInternal, std::string("internal error: ") + error.what());
  }
}

}  // namespace

}  // namespace qkv::app

int main(int argc, char** argv) {
  qkv::app::widen_heap();
  return qkv::app::run(argc, argv);
}
