#include "train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "io/atomic_folder.h"
#include "io/json_document.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/weights.h"
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

std::string to_json(const LoopState& state, const std::string& identity) {
  return nlohmann::ordered_json{{"identity", identity},
                                {"step", state.step},
                                {"epoch", state.epoch},
                                {"batch", state.batch},
                                {"loss_since_log", state.since_log.sum},
                                {"nll_since_log", state.since_log.nll},
                                {"tokens_since_log", state.since_log.tokens},
                                {"best_loss", state.best_loss},
                                {"best_step", state.best_step},
                                {"waits", state.waits}}
             .dump(1) +
         "\n";
}

LoopState read_state(const std::string& folder, const std::string& identity) {
  const std::string path = state_file(folder);
  const io::JsonDocument document(read_file(path, kMaxStateBytes), path);
  const io::JsonValue root = document.root();
  if (root["identity"].string() != identity) {
    throw std::invalid_argument(fmt::format(
        "{}: it is of a training with another config or other data; train into another folder, or remove it", folder));
  }
  const auto count = [&](const char* key) { return root[key].integer(0, INT64_MAX); };
  return {.step = count("step"),
          .epoch = count("epoch"),
          .batch = count("batch"),
          .since_log = {.sum = root["loss_since_log"].number(),
                        .nll = root["nll_since_log"].number(),
                        .tokens = count("tokens_since_log")},
          .best_loss = root["best_loss"].number(),
          .best_step = count("best_step"),
          .waits = count("waits")};
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

}  // namespace

Checkpoints::Checkpoints(std::string folder, std::string identity, std::int64_t period, std::int64_t kept)
    : folder_(std::move(folder)), identity_(std::move(identity)), period_(period), kept_(kept) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw IoError(fmt::format("{}: cannot create: {}", folder_, error.message()));
}

std::string Checkpoints::path_of(std::int64_t step) const { return fmt::format("{}/{}{:09}", folder_, kPrefix, step); }

std::vector<std::int64_t> Checkpoints::steps() const {
  std::vector<std::int64_t> found;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (error == std::errc{} && end == name.data() + name.size()) found.push_back(step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Those at other steps are of interruptions: a training that was never interrupted does not have them.
std::vector<std::int64_t> Checkpoints::counted() const {
  std::vector<std::int64_t> found = steps();
  std::erase_if(found, [&](std::int64_t step) { return step % period_ != 0; });
  return found;
}

void Checkpoints::remove(std::int64_t step) const {
  std::error_code error;
  fs::remove(path_of(step) + "/manifest.json", error);  // first: what is half removed must not pass for whole
  fs::remove_all(path_of(step), error);
  if (error) throw IoError(fmt::format("{}: cannot remove: {}", path_of(step), error.message()));
}

void Checkpoints::save(const Trainable& model, const Adam& adam, const LoopState& state) const {
  io::AtomicFolder folder(path_of(state.step));
  write_safetensors(weights_file(folder.place()), {.tensors = values_of(model)});
  std::map<std::string, Tensor> moments;
  for (const auto& [name, own] : adam.moments()) {
    moments["first." + name] = own.first;
    moments["second." + name] = own.second;
  }
  write_safetensors(moments_file(folder.place()), {.tensors = std::move(moments)});
  write_file(state_file(folder.place()), to_json(state, identity_));
  folder.commit();

  // The one before stays in any case: this one may turn out damaged.
  const std::vector<std::int64_t> all = steps(), counting = counted();
  for (const std::int64_t step : all) {
    const bool averaged = std::find(counting.end() - std::min<std::ptrdiff_t>(std::ssize(counting), kept_),
                                    counting.end(), step) != counting.end();
    if (!averaged && step != all.back() && step != all[all.size() - 2]) remove(step);
  }
}

std::optional<LoopState> Checkpoints::restore(Trainable& model, Adam& adam,
                                              const std::function<void(const std::string&)>& notice) const {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (io::AtomicFolder::is_unfinished(entry.path().string())) fs::remove_all(entry.path());
  }
  std::vector<std::int64_t> found = steps();
  for (; !found.empty(); found.pop_back()) {
    const std::string path = path_of(found.back());
    try {
      io::verify_folder(path);
    } catch (const std::runtime_error& damage) {
      notice(fmt::format("a damaged checkpoint is removed: {}", damage.what()));
      remove(found.back());
      continue;
    }
    const LoopState state = read_state(path, identity_);
    restore_weights(path, model);
    restore_moments(path, model, state.step, adam);
    notice(fmt::format("going on from {}", path));
    return state;
  }
  return std::nullopt;
}

void Checkpoints::average(Trainable& model) const {
  std::vector<std::int64_t> chosen = counted();
  if (std::ssize(chosen) > kept_) chosen.erase(chosen.begin(), chosen.end() - kept_);
  if (chosen.size() < 2) return;
  std::map<std::string, Tensor> sums;
  for (const std::int64_t step : chosen) {
    io::verify_folder(path_of(step));
    Weights weights = read_exactly(weights_file(path_of(step)));
    model.visit([&](const std::string& name, const Parameter& parameter) {
      const Tensor values = weights.take(name, parameter.value.shape());
      if (!sums.contains(name)) sums[name] = Tensor::zeros(values.shape(), Dtype::f64);
      add(values, sums[name]);
    });
  }
  const double count = static_cast<double>(chosen.size());
  model.update([&](const std::string& name, Parameter& parameter) {
    Tensor& sum = sums.at(name);
    for (std::int64_t i = 0; i < sum.element_count(); ++i) sum.data<double>()[i] /= count;
    convert(sum, parameter.value);
  });
}

}  // namespace qkv::training
