// How explanations look on standard output: coloured on a terminal that wants it (https://no-color.org).
#pragma once

#include "qkv/explain.h"

namespace qkv::app {

TextStyle text_style();

}  // namespace qkv::app
