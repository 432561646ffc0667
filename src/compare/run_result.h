// The result of a training of a comparison, as a file.
#pragma once

#include <optional>
#include <string>

#include "compare/run.h"

namespace qkv::comparison {

// `identity` is what the result depends on.
void write_result(const std::string& path, const std::string& identity, const RunResult& result);
// None if there is no such file. std::invalid_argument for one of another identity; FormatError; IoError.
std::optional<RunResult> read_result(const std::string& path, const std::string& identity);

}  // namespace qkv::comparison
