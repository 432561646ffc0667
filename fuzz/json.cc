// Any bytes as a JSON matrix.
#include "qkv/files.h"
#include "reader.h"

void read(std::string_view bytes) { qkv::parse_json_matrix(bytes, "fuzz"); }
