// The engine of the page: the program's commands, one call each, in a module that the page keeps. What stands in for
// the operating system is the page's own (web/src/live/system.ts).
#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <vector>

#include "apps/qkv/commands.h"
#include "apps/qkv/notes.h"
#include "apps/qkv/signals.h"
#include "apps/qkv/surroundings.h"
#include "explain/show/report_page.h"
#include "qkv/train/train_classifier.h"
#include "qkv/train/train_language.h"
#include "qkv/train/train_text.h"
#include "train/config/sentence_config.h"
#include "train/config/text_config.h"

namespace qkv::app {

// A call ends when it is done: the page stops a longer one with the worker that runs it.
void watch_signals() {}
std::stop_token interruption() { return {}; }
void check_interruption() {}
bool wait_to_read(int, std::optional<std::chrono::milliseconds>) { return true; }
void write_output(std::string_view text) { std::cout << text; }
void flush_output() { std::cout.flush(); }
int interrupted_exit_code() { return 1; }
const char* interrupted_message() { return "interrupted"; }
void be_quiet() {}
bool is_quiet() { return false; }
void note(std::string_view) {}
void note_written(const std::string&, std::string_view) {}
struct WorkingLine::Line {};
WorkingLine::WorkingLine(std::string) {}
WorkingLine::~WorkingLine() = default;
std::int64_t columns_of_output(std::int64_t otherwise) { return otherwise; }
TextStyle text_style() { return {}; }
std::string_view about_default_model(DefaultModel) { return {}; }
std::string model_fingerprint(const Translator&) { return {}; }
std::string model_fingerprint(const Generator&) { return {}; }
std::string model_fingerprint(const std::string&, WeightStorage) { return {}; }
std::string default_model(DefaultModel) { return "/model"; }

}  // namespace qkv::app

namespace qkv {

// A page trains translators alone.
TrainingResult train_language(const TrainLanguageFiles&, const TrainingOptions&) {
  throw std::invalid_argument("train: a page trains translators alone; use the program for a language model");
}
TrainingResult train_classifier(const TrainClassifierFiles&, const TrainingOptions&) {
  throw std::invalid_argument("train: a page trains translators alone; use the program for a classifier");
}
TrainingResult train_text(const TrainTextFiles&, const TrainingOptions&) {
  throw std::invalid_argument("train: a page trains translators alone; use the program for an encoder");
}
TrainingResult train_sentences(const TrainTextFiles&, const TrainingOptions&) {
  throw std::invalid_argument("train: a page trains translators alone; use the program for an encoder");
}

}  // namespace qkv

namespace qkv::training {

const KeyTable<TextConfig>& text_keys() {
  static const KeyTable<TextConfig> none{};
  return none;
}
const KeyTable<SentenceConfig>& sentence_keys() {
  static const KeyTable<SentenceConfig> none{};
  return none;
}

}  // namespace qkv::training

namespace qkv::inline explaining {

// The page is there already: a report of the engine is its tables and data.
std::string_view report_page() {
  return "<!--qkv:title--><!--qkv:report--><script type=\"application/json\"><!--qkv:data--></script><!--qkv:engine-->";
}

}  // namespace qkv::inline explaining

// The mark of C++ exceptions among those of WebAssembly.
__asm__(".tagtype __cpp_exception i32\n.globl __cpp_exception\n__cpp_exception:");

namespace {

void add_commands(qkv::app::Command& program) {
  qkv::app::add_explain(program);
  qkv::app::add_train(program);
  qkv::app::add_translate(program);
}

}  // namespace

extern "C" {

__attribute__((export_name("allocate"))) void* engine_allocate(std::size_t size) { return std::malloc(size); }
__attribute__((export_name("release"))) void engine_release(void* block) { std::free(block); }

// `arguments` are `count` texts, each with a zero byte behind it. The program's exit code.
__attribute__((export_name("run"))) int engine_run(int count, char* arguments) {
  std::vector<char*> list{const_cast<char*>("qkv")};
  for (int i = 0; i < count; ++i) {
    list.push_back(arguments);
    arguments += std::strlen(arguments) + 1;
  }
  list.push_back(nullptr);
  return qkv::app::run_program(count + 1, list.data(), add_commands);
}
}
