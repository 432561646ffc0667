// Polls the stop token of a computation: once per tile, so that a caller never waits long. Out of line, for
// kernels that are compiled for wide CPU targets.
#pragma once

#include <cstdint>
#include <stop_token>

namespace qkv::inline core {

// Stopped if the token, nullptr for none, asks for an end.
void check_stop(const std::stop_token* stop);

// How often this thread has asked so far. Tests count by it.
std::int64_t stop_checks();

}  // namespace qkv::inline core
