// Reports errors as one line on standard error and an exit code.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "attention/call/memory_count.h"
#include "commands.h"
#include "figures.h"
#include "qkv/error.h"
#include "qkv/stop.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "qkv/version.h"
#include "signals.h"

namespace qkv::app {
namespace {

// A mistake in the environment is a mistake in usage; it is found before any work.
void check_environment() {
  try {
    selected_target();
    threads();
  } catch (const std::invalid_argument& error) {
    throw UsageError(message_of(error));
  }
}

}  // namespace

int run_program(int argc, char** argv, void (*add_commands)(Command&)) {
  Program program("qkv", "Exact attention on ordinary CPUs, computed fast and explained.");
  const auto fail = [&](int code, std::string_view message) {
    const std::string command = program.named_command();
    std::cerr << one_line(command + ": " + std::string(message)) << '\n';
    return code;
  };
  try {
    Command& commands = program.commands();
    add_commands(commands);
    commands.add_footer(
        "Exit codes: 0 success, 1 internal error, 2 command line, 3 data, 4 operating system, 5 certification "
        "failed, 130 Ctrl-C, 143 SIGTERM, 152 processor time (docs/exit_codes.md).");
    watch_signals();
    const StopScope stop(interruption());
    program.run(argc, argv, fmt::format("qkv {}", version()), check_environment);
    flush_output();
    return kOk;
  } catch (const UsageError& error) {
    return fail(kUsage, fmt::format("{} (see {} --help)", error.what(), program.named_command()));
  } catch (const MemoryLimitError& error) {
    return fail(kUsage, fmt::format("--memory-limit: {} (see {} --help)", error.text(), program.named_command()));
  } catch (const std::invalid_argument& error) {
    return fail(kBadData, message_of(error));
  } catch (const FormatError& error) {
    return fail(kBadData, error.what());
  } catch (const IoError& error) {
    return fail(kInputOutput, error.what());
  } catch (const Parted& error) {
    return fail(kParted, error.what());
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

}  // namespace qkv::app
