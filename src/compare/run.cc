// Finishes a run: what is already done is read, the rest is trained and measured.
#include "compare/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compare/catalog.h"
#include "compare/reader_run.h"
#include "compare/run_result.h"
#include "compare/translator_run.h"

namespace qkv::comparison {
namespace {

std::string folder_of(const Run& run, const RunFiles& files) { return files.folder + "/" + run.name(); }

// What a result depends on.
std::string identity_of(const Run& run) {
  return fmt::format("{}, {} updates of {} tokens, clip {}, {} parameters, {} examples", run.name(), run.steps,
                     run.batch_tokens, run.clip, catalog_task(run.task).parameters, run.examples);
}

std::optional<RunResult> earlier(const Run& run, const RunFiles& files) {
  return read_result(folder_of(run, files) + "/result.json", identity_of(run));
}

}  // namespace

std::string Run::name() const { return fmt::format("{}-{}{}-{}", task, model, clip > 0 ? "" : "-unclipped", seed); }

bool is_finished(const Run& run, const RunFiles& files) { return earlier(run, files).has_value(); }

RunResult finish(const Run& run, const RunFiles& files, const std::function<void(std::int64_t)>& on_step) {
  if (std::optional<RunResult> result = earlier(run, files)) return *std::move(result);
  const std::string own = folder_of(run, files);
  std::filesystem::create_directories(own);
  const RunPlace place{.folder = own, .identity = identity_of(run), .on_step = on_step};
  const std::vector<std::string>& models = catalog_task(run.task).models;
  const bool reads = std::all_of(models.begin(), models.end(), is_reader);
  const RunResult result = reads ? run_reader(run, place) : run_translator(run, place, files.phrases);
  write_result(own + "/result.json", identity_of(run), result);
  std::filesystem::remove_all(own + "/checkpoints");
  return result;
}

}  // namespace qkv::comparison
