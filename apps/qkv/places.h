// Where the program's own files are: beside it, as an installation, a build and the Python package have them.
#pragma once

#include <string>

namespace qkv::app {

// The folder of the model that commands open where none is named. The first there is of QKV_MODEL of the environment,
// ../share/qkv/models/en-es beside the program, and the Python package qkv-en-es beside the package that holds the
// program. IoError that names them all if there is none.
std::string default_model();

// The phrase book of `qkv compare`: ../share/qkv/phrases.es.tsv. IoError alike.
std::string phrase_book();

}  // namespace qkv::app
