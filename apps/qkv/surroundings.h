// The program's surroundings: its own files (next to it, as in an installation, a build and the Python package),
// the terminal, and the engine of pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/explain/explain.h"
#include "qkv/matmul.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/translator.h"

namespace qkv::app {

// The models that come with the program: models/en-es, and models/verses, a language model.
enum class DefaultModel { translator, writer };

// The folder of the model that commands open where none is named. The first there is of the environment's (QKV_MODEL,
// QKV_LANGUAGE_MODEL), ../share/qkv/models/NAME next to the program, and the Python package (qkv-en-es, qkv-verses)
// next to the package that contains the program. IoError that names them all if there is none.
std::string default_model(DefaultModel which);

// Its training data, in a sentence; empty if the environment chooses the model.
std::string_view about_default_model(DefaultModel which);

// The fingerprint of a model, or of a folder's model (qkv/pipelines/certify.h). Pages, which have no time for
// it, say nothing.
std::string model_fingerprint(const Translator& translator);
std::string model_fingerprint(const Generator& generator);
std::string model_fingerprint(const std::string& folder, WeightStorage storage);

// The phrase book of `qkv compare`: ../share/qkv/phrases.es.tsv. IoError alike.
std::string phrase_book();

// The columns of standard output: COLUMNS, else the terminal's width, else `otherwise`.
std::int64_t columns_of_output(std::int64_t otherwise);

// The style of explanations on standard output: as wide as the terminal, coloured if it wants it
// (https://no-color.org).
TextStyle text_style();

// The engine of pages, web/engine/engine.wasm.zst, as it was when the program was built: qkv's commands as a
// WebAssembly module, compressed by zstd.
std::string_view engine_module();

}  // namespace qkv::app
