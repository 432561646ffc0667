// One function per subcommand: adds the subcommand and its options to the program; its callback runs it.
#pragma once

#include <CLI/CLI.hpp>

namespace qkv::app {

void add_attend(CLI::App& program);
void add_bench(CLI::App& program);
void add_embed(CLI::App& program);
void add_explain(CLI::App& program);
void add_info(CLI::App& program);
void add_plan(CLI::App& program);
void add_tokenizer(CLI::App& program);
void add_train(CLI::App& program);
void add_translate(CLI::App& program);

}  // namespace qkv::app
