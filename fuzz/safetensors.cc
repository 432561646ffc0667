// Any bytes as a safetensors file.
#include "io/files.h"
#include "reader.h"

void read(std::string_view bytes) { qkv::io::parse_safetensors(bytes, "fuzz"); }
