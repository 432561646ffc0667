// The engine of pages, web/engine/engine.wasm.gz, as it was when the program was built.
#pragma once

#include <string_view>

namespace qkv::app {

// qkv's commands as a WebAssembly module, gzipped.
std::string_view engine_module();

}  // namespace qkv::app
