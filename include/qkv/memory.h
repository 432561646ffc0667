/// \file
/// Memory that the library keeps between calls.
#pragma once

#include "qkv/api.h"

namespace qkv {

/// Tensors and scratch of at least 64 KiB take their memory from what others have freed: the process keeps at most 512
/// MiB of that, for all threads together. trim_memory() gives all of it back to the system, and what the C library
/// keeps between blocks in use; pages that are used again must then be cleared again. Safe from any thread, and in a
/// child after fork().
QKV_API void trim_memory();

}  // namespace qkv
