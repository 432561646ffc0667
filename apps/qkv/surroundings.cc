// Finds the program's own files, and asks the terminal for its width and colours.
#include "surroundings.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "qkv/error.h"
#include "qkv/pipelines/certify.h"
#include "qkv/pipelines/fingerprint.h"
#include "signals.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// The folder of the program, or of the Python module that contains it.
fs::path own_folder() {
  Dl_info found;
  link_map* module = nullptr;
  const auto* here = reinterpret_cast<const void*>(&own_folder);
  const bool known = dladdr1(here, &found, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) != 0;
  const bool in_module = known && module->l_name[0] != '\0';  // a program's own name is empty there
  std::error_code error;
  return fs::canonical(in_module ? module->l_name : "/proc/self/exe", error).parent_path();
}

std::vector<std::string> beside(const std::vector<std::string>& names) {
  std::vector<std::string> places;
  for (const std::string& name : names) places.push_back((own_folder() / name).lexically_normal().string());
  return places;
}

// The first that is there.
std::string first_of(std::string_view what, const std::vector<std::string>& places, std::string_view otherwise) {
  std::error_code error;
  for (const std::string& place : places) {
    if (fs::exists(place, error)) return place;
  }
  throw IoError(fmt::format("{} not found: {}; {}", what, fmt::join(places, ", "), otherwise), ENOENT);
}

struct Shipped {
  const char* what;
  const char* variable;  // of the environment, which names another
  const char* folder;
  const char* package;  // of Python
  std::string_view about;
};

const Shipped& shipped(DefaultModel which) {
  static constexpr Shipped kTranslator{
      .what = "the English-Spanish model",
      .variable = "QKV_MODEL",
      .folder = "en-es",
      .package = "qkv_en_es",
      .about =
          "The model that comes with qkv was trained only on everyday phrases, program messages and Bible verses: "
          "it often gets other texts wrong."};
  static constexpr Shipped kWriter{
      .what = "the language model of verses",
      .variable = "QKV_LANGUAGE_MODEL",
      .folder = "verses",
      .package = "qkv_verses",
      .about =
          "The model that comes with qkv was trained only on the World English Bible: it writes like its verses, "
          "and knows nothing else."};
  return which == DefaultModel::translator ? kTranslator : kWriter;
}

// The folder that the environment names; empty: none.
std::string chosen_instead(const Shipped& model) {
  const char* chosen = std::getenv(model.variable);
  return chosen == nullptr ? "" : chosen;
}

}  // namespace

std::string default_model(DefaultModel which) {
  const Shipped& model = shipped(which);
  std::vector<std::string> places =
      beside({fmt::format("../share/qkv/models/{}", model.folder), fmt::format("../{}", model.package)});
  if (const std::string chosen = chosen_instead(model); !chosen.empty()) places = {chosen};
  std::string package = model.package;
  std::ranges::replace(package, '_', '-');
  return first_of(model.what, places,
                  fmt::format("give a model's folder with --model or {}, or install {}", model.variable, package));
}

std::string_view about_default_model(DefaultModel which) {
  const Shipped& model = shipped(which);
  return chosen_instead(model).empty() ? model.about : std::string_view{};
}

std::string model_fingerprint(const Translator& translator) {
  return fingerprint(translator, {.stop = interruption()});
}

std::string model_fingerprint(const Generator& generator) { return fingerprint(generator, {.stop = interruption()}); }

std::string model_fingerprint(const std::string& folder, WeightStorage storage) {
  return fingerprint_of_folder(folder, storage, {.stop = interruption()});
}

std::string phrase_book() {
  return first_of("the phrase book", beside({"../share/qkv/phrases.es.tsv", "share/qkv/phrases.es.tsv"}),
                  "it comes with the program");
}

namespace {

constexpr std::int64_t kWidest = 100'000;

// The names of terminals say so (terminfo), and those of more colours by this variable.
bool has_256_colors(std::string_view terminal) {
  const char* more = std::getenv("COLORTERM");
  return terminal.find("256color") != std::string_view::npos || (more != nullptr && *more != '\0');
}

}  // namespace

std::int64_t columns_of_output(std::int64_t otherwise) {
  const char* columns = std::getenv("COLUMNS");
  const std::int64_t wanted = columns == nullptr ? 0 : parse_whole(columns).value_or(0);
  if (wanted > 0 && wanted <= kWidest) return wanted;
  winsize size{};
  const bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_terminal ? size.ws_col : otherwise;
}

TextStyle text_style() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (terminal != nullptr && std::string_view(terminal) == "dumb");
  TextStyle style{.color = !refused && isatty(STDOUT_FILENO) == 1};
  style.colors_256 = has_256_colors(terminal == nullptr ? "" : terminal);
  style.width = static_cast<int>(columns_of_output(style.width));
  return style;
}

}  // namespace qkv::app
