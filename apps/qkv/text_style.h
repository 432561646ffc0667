// The style of explanations on standard output: as wide as the terminal, coloured if it wants it
// (https://no-color.org).
#pragma once

#include "qkv/explain/explain.h"

namespace qkv::app {

TextStyle text_style();

}  // namespace qkv::app
