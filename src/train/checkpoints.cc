// Saves, finds, verifies, restores and removes checkpoints.
#include "train/checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/refuse.h"
#include "io/atomic_folder.h"
#include "io/json/json_document.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/layers/weights.h"
#include "train/elements.h"

namespace qkv::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::size_t kMaxStateBytes = 1 << 20;

std::string weights_file(const std::string& folder) { return folder + "/weights.safetensors"; }
std::string moments_file(const std::string& folder) { return folder + "/optimizer.safetensors"; }
std::string state_file(const std::string& folder) { return folder + "/state.json"; }

std::map<std::string, Tensor> values_of(const Trainable& model) {
  std::map<std::string, Tensor> values;
  model.visit([&](const std::string& name, const Parameter& parameter) { values[name] = parameter.value; });
  return values;
}

std::string to_json(const LoopState& state, const RunIdentity& identity) {
  nlohmann::ordered_json object{{"step", state.step},
                                {"epoch", state.epoch},
                                {"batch", state.batch},
                                {"loss_since_log", state.since_log.sum},
                                {"nll_since_log", state.since_log.nll},
                                {"tokens_since_log", state.since_log.count},
                                {"best_loss", state.best_loss},
                                {"best_step", state.best_step},
                                {"waits", state.waits},
                                {"steps", identity.steps},
                                {"patience", identity.patience},
                                {"fixed", identity.fixed},
                                {"settings", identity.settings}};
  if (state.best_metric) object["best_metric"] = *state.best_metric;
  if (state.unvalidated) object["unvalidated"] = true;
  return object.dump(1) + "\n";
}

// In f64, which holds f32 as well without a change.
Weights read_exactly(const std::string& path) { return Weights(read_safetensors(path).tensors, path, Dtype::f64); }

void restore_weights(const std::string& folder, Trainable& model) {
  Weights weights = read_exactly(weights_file(folder));
  model.update([&](const std::string& name, Parameter& parameter) {
    convert(weights.take(name, parameter.value.shape()), parameter.value);
  });
  weights.expect_empty();
}

void restore_moments(const std::string& folder, const Trainable& model, std::int64_t step, Adam& adam) {
  Weights tensors = read_exactly(moments_file(folder));
  std::map<std::string, Adam::Moments> moments;
  model.visit([&](const std::string& name, const Parameter& parameter) {
    if (!parameter.has_gradient()) return;
    const auto take = [&](const std::string& moment) {
      return convert(tensors.take(moment + name, parameter.value.shape()), parameter.value.dtype());
    };
    moments[name] = {.first = take("first."), .second = take("second.")};
  });
  tensors.expect_empty();
  adam.restore(step, std::move(moments));
}

void add(const Tensor& values, Tensor& sum) {
  const double* from = values.data<double>();
  double* to = sum.data<double>();
  for_each_block(sum.element_count(), [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

// Held while a process trains into a folder; the system lets go of it when the process ends, however it ends.
io::Descriptor lock(const std::string& folder) {
  io::create_folders(folder);
  const std::string path = folder + "/lock";
  io::Descriptor file(io::retry([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (!file) io::throw_io_error(path, "write");
  if (io::retry([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) != 0) {
    throw IoError(folder + ": another process is training into it", EWOULDBLOCK);
  }
  return file;
}

// Ascending; none if the folder is missing.
std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::error_code unread;
  const fs::directory_iterator entries(folder, unread);
  if (unread && unread != std::errc::no_such_file_or_directory) {
    io::throw_io_error(folder, "read", unread);
  }
  std::vector<std::int64_t> found;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (error == std::errc{} && end == name.data() + name.size()) found.push_back(step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void keep_last(std::vector<std::int64_t>& steps, std::int64_t count) {
  if (std::ssize(steps) > count) steps.erase(steps.begin(), steps.end() - count);
}

}  // namespace

Checkpoint read_state(const std::string& folder) {
  const std::string path = state_file(folder);
  const io::JsonDocument document(read_file(path, kMaxStateBytes), path);
  const io::JsonValue root = document.root();
  const auto count = [&](const char* key) { return root[key].integer(0, INT64_MAX); };
  const auto values = [&](const char* key) {
    std::map<std::string, std::string> found;
    root[key].for_each_member(
        [&](const std::string& name, const io::JsonValue& value) { found[name] = value.string(); });
    return found;
  };
  std::optional<double> best_metric;
  if (const auto metric = root.find("best_metric")) best_metric = metric->number();
  const auto unvalidated = root.find("unvalidated");
  return {.path = folder,
          .state = {.step = count("step"),
                    .epoch = count("epoch"),
                    .batch = count("batch"),
                    .since_log = {.sum = root["loss_since_log"].number(),
                                  .nll = root["nll_since_log"].number(),
                                  .count = count("tokens_since_log")},
                    .best_loss = root["best_loss"].number(),
                    .best_metric = best_metric,
                    .best_step = count("best_step"),
                    .waits = count("waits"),
                    .unvalidated = unvalidated && unvalidated->boolean()},
          .identity = {.fixed = values("fixed"),
                       .settings = values("settings"),
                       .steps = count("steps"),
                       .patience = count("patience")}};
}

bool Checkpoints::exist(const std::string& folder) { return !steps_in(folder).empty(); }

Checkpoints::Checkpoints(const std::string& folder, std::int64_t period, std::int64_t kept,
                         std::function<void(const std::string&)> notice)
    : folder_(folder), period_(period), kept_(kept), notice_(std::move(notice)), lock_(lock(folder)) {}

std::string Checkpoints::path_of(std::int64_t step) const { return fmt::format("{}/{}{:09}", folder_, kPrefix, step); }

// Checkpoints that any training has at these steps. Others come from interruptions or the clock; but `last` may be an
// end between two validations.
std::vector<std::int64_t> Checkpoints::counted_until(std::int64_t last) const {
  std::vector<std::int64_t> found = steps_in(folder_);
  std::erase_if(found, [&](std::int64_t step) { return step > last || (step != last && step % period_ != 0); });
  keep_last(found, kept_);
  return found;
}

bool Checkpoints::is_whole(std::int64_t step) const {
  try {
    io::verify_folder(path_of(step));
    return true;
  } catch (const Stopped&) {
    throw;
  } catch (const std::runtime_error& damage) {
    notice_(fmt::format("skipping a damaged checkpoint: {}", damage.what()));
    return false;
  }
}

void Checkpoints::remove(std::int64_t step) const {
  std::error_code error;
  fs::remove(path_of(step) + "/manifest.json", error);  // first: what is half removed must not pass for whole
  fs::remove_all(path_of(step), error);
  if (error) io::throw_io_error(path_of(step), "remove", error);
}

void Checkpoints::save(const Trainable& model, const Adam& adam, const LoopState& state,
                       const RunIdentity& identity) const {
  io::AtomicFolder folder(path_of(state.step));
  write_safetensors(weights_file(folder.unfinished()), {.tensors = values_of(model)});
  std::map<std::string, Tensor> moments;
  for (const auto& [name, own] : adam.moments()) {
    moments["first." + name] = own.first;
    moments["second." + name] = own.second;
  }
  write_safetensors(moments_file(folder.unfinished()), {.tensors = std::move(moments)});
  write_file(state_file(folder.unfinished()), to_json(state, identity));
  folder.commit();

  const std::vector<std::int64_t> all = steps_in(folder_);
  std::set<std::int64_t> stay(all.end() - std::min<std::ptrdiff_t>(std::ssize(all), 2),
                              all.end());  // one may be damaged
  const std::int64_t last_counted = state.step - state.step % period_;
  for (const std::int64_t last : {last_counted, state.best_step}) {
    for (const std::int64_t step : counted_until(last)) stay.insert(step);
  }
  for (const std::int64_t step : all) {
    if (!stay.contains(step)) remove(step);
  }
}

std::optional<Checkpoint> Checkpoints::newest() const {
  const std::vector<std::int64_t> found = steps_in(folder_);
  if (found.empty()) return std::nullopt;
  const auto whole = std::find_if(found.rbegin(), found.rend(), [&](std::int64_t step) { return is_whole(step); });
  if (whole == found.rend()) {
    throw FormatError(fmt::format("{}: all checkpoints are damaged; remove it to start over", folder_));
  }
  return read_state(path_of(*whole));
}

void Checkpoints::restore(const Checkpoint& from, Trainable& model, Adam& adam) const {
  restore_weights(from.path, model);
  restore_moments(from.path, model, from.state.step, adam);
  notice_(fmt::format("resuming from {}", from.path));
}

void Checkpoints::remove_after(std::int64_t step) const {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (io::AtomicFolder::is_unfinished(entry.path().string())) fs::remove_all(entry.path());
  }
  for (const std::int64_t other : steps_in(folder_)) {
    if (other > step) remove(other);
  }
}

std::vector<std::int64_t> Checkpoints::ending_at(std::int64_t last) const {
  std::vector<std::int64_t> chosen = counted_until(last);
  std::erase_if(chosen, [&](std::int64_t step) { return !is_whole(step); });
  return chosen;
}

void Checkpoints::average(const std::vector<std::int64_t>& steps, Trainable& model) const {
  std::map<std::string, Tensor> sums;
  for (const std::int64_t step : steps) {
    Weights weights = read_exactly(weights_file(path_of(step)));
    model.visit([&](const std::string& name, const Parameter& parameter) {
      const Tensor values = weights.take(name, parameter.value.shape());
      if (!sums.contains(name)) sums[name] = Tensor::zeros(values.shape(), Dtype::f64);
      add(values, sums[name]);
    });
  }
  const double count = static_cast<double>(steps.size());
  model.update([&](const std::string& name, Parameter& parameter) {
    Tensor& sum = sums.at(name);
    for (std::int64_t i = 0; i < sum.element_count(); ++i) sum.data<double>()[i] /= count;
    convert(sum, parameter.value);
  });
}

void expect_own_files(const std::string& out, std::initializer_list<const char*> names,
                      const std::function<bool(const std::string& path)>& is_input) {
  if (Checkpoints::exist(out + "/checkpoints")) return;
  for (const char* name : names) {
    const std::string path = out + "/" + name;
    if (!std::filesystem::exists(path) || (is_input && is_input(path))) continue;
    refuse_path(
        path,
        "already exists, and the folder has no checkpoints to resume from; train into another folder, or remove it");
  }
}

}  // namespace qkv::training
