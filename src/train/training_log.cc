// Writes log.jsonl and the curve of the losses.
#include "train/training_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "io/descriptor.h"
#include "io/json_document.h"
#include "io/json_events.h"
#include "qkv/files.h"

namespace qkv::training {
namespace {

constexpr std::size_t kMaxLogBytes = std::size_t{1} << 28;

bool exists(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

TrainingLog::TrainingLog(std::string path, std::int64_t step) : path_(std::move(path)) {
  std::string kept;
  if (step > 0 && exists(path_)) {
    const std::string text = read_file(path_, kMaxLogBytes);
    // A last line without its end was cut off when the process died.
    for (std::size_t begin = 0, end = text.find('\n'); end != std::string::npos;
         begin = end + 1, end = text.find('\n', begin)) {
      const std::string_view line(text.data() + begin, end - begin);
      const io::JsonDocument document(line, path_);
      const io::JsonValue root = document.root();
      const std::int64_t at = root["step"].integer(0, INT64_MAX);
      if (at > step || (at == step && root.find("changed"))) break;
      if (const auto nll = root.find("nll")) training_.push_back({at, nll->number()});
      if (const auto loss = root.find("valid_loss")) validation_.push_back({at, loss->number()});
      kept.append(line).push_back('\n');
    }
  }
  write_file(path_, kept);
}

void TrainingLog::add(const TrainingProgress& progress) {
  training_.push_back({progress.step, progress.nll});
  append(nlohmann::ordered_json{{"step", progress.step},
                                {"epoch", progress.epoch},
                                {"loss", io::json_number(progress.loss)},
                                {"nll", io::json_number(progress.nll)},
                                {"rate", io::json_number(progress.rate)},
                                {"gradient_norm", io::json_number(progress.gradient_norm)},
                                {"tokens_per_second", progress.tokens_per_second},
                                {"peak_memory", progress.peak_memory}}
             .dump());
}

void TrainingLog::add(std::int64_t step, const std::vector<Change>& changes) {
  nlohmann::ordered_json changed;
  for (const Change& change : changes) changed[change.name] = {{"before", change.before}, {"now", change.now}};
  append(nlohmann::ordered_json{{"step", step}, {"changed", changed}}.dump());
}

void TrainingLog::add(const Validation& validation) {
  if (!validation_.empty() && validation_.back().step == validation.step) return;
  validation_.push_back({validation.step, validation.loss});
  nlohmann::ordered_json line{{"step", validation.step},
                              {"valid_loss", io::json_number(validation.loss)},
                              {"perplexity", io::json_number(validation.perplexity)}};
  if (validation.metric) line[validation.metric->name] = io::json_number(validation.metric->value);
  line["best"] = validation.best;
  append(line.dump());
}

void TrainingLog::append(const std::string& line) {
  const io::Descriptor file(io::retry([&] { return ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC); }));
  if (!file) io::throw_io_error(path_, "write");
  const std::string text = line + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t done = io::retry([&] { return ::write(file.get(), rest.data(), rest.size()); });
    if (done < 0) io::throw_io_error(path_, "write");
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace qkv::training
