// Handles signals: SIGINT (Ctrl-C), SIGTERM and SIGXCPU ask for an end; a second one of the first two kills. SIGBUS, a
// mapped file that lost its bytes, ends the program with a line and exit code 4.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string_view>

namespace qkv::app {

// To call before any other thread starts.
void watch_signals();

// Asks for an end once the user has asked for one. For every computation that can take long.
std::stop_token interruption();

// Throws Stopped once the user has asked for an end. For loops that take long by themselves.
void check_interruption();

// Returns true once `descriptor` can be read without waiting, false if it could not for `at_most`; Stopped once the
// user has asked for an end.
bool wait_to_read(int descriptor, std::optional<std::chrono::milliseconds> at_most = {});

// Writes to standard output, however long that takes. IoError if the system refuses; Stopped as above.
void write_output(std::string_view text);

// Writes what std::cout and stdout hold. IoError if the system refuses.
void flush_output();

// How an interrupted program ends: as a shell reports the signal, 130, 143 or 152.
int interrupted_exit_code();
const char* interrupted_message();

}  // namespace qkv::app
