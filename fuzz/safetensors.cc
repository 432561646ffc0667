// Any bytes as a safetensors file.
#include "io/array_formats.h"
#include "reader.h"

void read(std::string_view bytes) { qkv::io::parse_safetensors(bytes, "fuzz"); }
