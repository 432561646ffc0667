// The engine of pages, web/engine/engine.wasm.zst, as it was when the program was built.
#pragma once

#include <string_view>

namespace qkv::app {

// qkv's commands as a WebAssembly module, compressed by zstd.
std::string_view engine_module();

}  // namespace qkv::app
