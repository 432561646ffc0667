// How much memory something takes, as far as the system says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace qkv::comparison {

// By how much the memory of the process is larger, at most, while `work` runs. None where /proc does not say.
std::optional<std::int64_t> peak_growth(const std::function<void()>& work);

// Bytes that are allocated and not freed.
std::int64_t allocated_bytes();

}  // namespace qkv::comparison
