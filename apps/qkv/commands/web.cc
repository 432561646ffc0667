// qkv web: a page with the engine inside, where the worked example and a model's sentences can be changed.
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "commands.h"
#include "commands/model_heads.h"
#include "commands/report_file.h"
#include "inputs/options.h"
#include "qkv/files.h"
#include "qkv/models/find_model.h"
#include "qkv/models/language_model.h"
#include "qkv/models/vit.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

struct WebOptions {
  std::string out;
  std::string model;
};

constexpr const char* kText = "You are welcome";
// The first text of a language model and its number of tokens, as in web/src/live/live.ts.
constexpr const char* kPrompt = "In the beginning";
constexpr std::int64_t kWritten = 24;

// The files of a model's folder that the engine reads, by its names.
std::map<std::string, std::string> model_in_page(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const NamedFile& file : model_files(folder)) {
    const std::filesystem::path path = file.path;
    if (path.extension() == ".json" || path.extension() == ".safetensors" || path.extension() == ".spm") {
      files["/model/" + path.filename().string()] = read_file(file.path);
    }
  }
  return files;
}

void run(const Command& command, const WebOptions& options) {
  ReportFile page{.path = options.out};
  const std::string folder = options.model.empty() ? "" : find_model(options.model);
  if (!folder.empty() && Vit::is_in(folder)) {
    throw UsageError("--model", folder + " reads pictures; a page needs a model that reads texts");
  }
  check_output(folder.empty() ? std::vector<NamedFile>{} : model_files(folder), {"--out", options.out});
  page.report.add(explain(worked_example()));
  PageEngine engine{.module = engine_module()};
  if (!folder.empty()) {
    ModelOptions model;
    model.folder = folder;
    const bool writes = LanguageModel::is_in(folder);
    model.text = writes ? kPrompt : kText;
    if (writes) model.write = kWritten;
    explain_model(model, {.json = true, .style = {}, .svg = {}, .report = page});
    engine.files = model_in_page(folder);
  }
  page.report.add(engine);
  page.write("Attention, live", command.line());
}

}  // namespace

void add_web(Command& program) {
  Command& command = program.add_command("web", "Write a page that computes attention in the browser, offline");
  command.add_examples({{"The worked example, to edit", "qkv web --out page.html"},
                        {"A translator, too", "qkv web --model models/en-es --out page.html"},
                        {"A language model", "qkv web --model models/verses --out page.html"}});
  const auto options = std::make_shared<WebOptions>();
  command.add({{"--out", output_file(options->out, {".html", ".htm"}), "output: the page", required()},
               {"--model", file(options->model, "FOLDER"),
                "Model for texts on the page, as in explain --text; a language model continues them (default: the "
                "worked example only)"}});
  command.on_run([&command, options] { run(command, *options); });
}

}  // namespace qkv::app
