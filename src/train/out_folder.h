// The folder of a training: what is in it must be its own.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

namespace qkv::training {

// std::invalid_argument if `out` has one of the files but no checkpoints that a training could go on from; one that
// `is_input` may be there.
void expect_own_files(const std::string& out, std::initializer_list<const char*> names,
                      const std::function<bool(const std::string& path)>& is_input = {});

}  // namespace qkv::training
