// Any bytes as an .npy file.
#include "io/files.h"
#include "reader.h"

void read(std::string_view bytes) { qkv::io::parse_npy(bytes, "fuzz"); }
