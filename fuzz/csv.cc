// Any bytes as a CSV matrix.
#include "io/files.h"
#include "reader.h"

void read(std::string_view bytes) { qkv::io::parse_csv(bytes, "fuzz"); }
