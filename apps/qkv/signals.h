// Signals: the one place that knows them. SIGINT (Ctrl-C) and SIGTERM ask for an end, the second one kills.
#pragma once

#include <stop_token>

namespace qkv::app {

// To call before any other thread starts.
void watch_signals();

// Asks for an end once the user has asked for one. For every computation that can take long.
std::stop_token interruption();

// Throws Stopped once the user has asked for an end. For loops that take long by themselves.
void check_interruption();

// Returns once `descriptor` can be read without waiting; Stopped once the user has asked for an end.
void wait_to_read(int descriptor);

// How an interrupted program ends: as a shell reports the signal, 130 or 143.
int interrupted_exit_code();
const char* interrupted_message();

}  // namespace qkv::app
