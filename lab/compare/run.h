// One training of a comparison: a model on a task from a seed, and what is measured of it in the end. Its folder keeps
// the result, or what a training resumes from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace qkv::comparison {

struct Run {
  std::string task, model;
  std::uint64_t seed = 1;
  double clip = 1;  // 0: off
  std::int64_t steps = 0;
  std::int64_t batch_tokens = 0;
  std::int64_t examples = 0;  // measured at each point

  // "recall-rnn-1"; the name of its folder.
  std::string name() const;
};

// Norms of all gradients together, over all updates, before clipping.
struct GradientNorms {
  double largest = 0, median = 0;
};

struct RunResult {
  std::int64_t parameters = 0;
  std::int64_t asked = 0;                      // labels at a point, at least
  std::map<std::int64_t, double> accuracy{};   // by distance, length or number
  std::map<std::int64_t, double> gradients{};  // recall alone: input_gradients(), of the trained model
  GradientNorms norms{};
};

// The plain recurrent network on recall is trained with and without clipping.
inline bool is_clipped_or_not(const Run& run) { return run.task == "recall" && run.model == "rnn"; }

struct RunFiles {
  std::string folder;   // has a folder for each run
  std::string phrases;  // the phrase book
};

// Trains, or reads the result of an earlier call. `on_step` is called after each update, with its number.
// std::invalid_argument if the folder has a result of another run of this name; Stopped.
RunResult finish(const Run& run, const RunFiles& files, const std::function<void(std::int64_t)>& on_step);

// Whether a run is finished.
bool is_finished(const Run& run, const RunFiles& files);

// The result as a file. `identity` is what it depends on.
void write_result(const std::string& path, const std::string& identity, const RunResult& result);
// None if there is no such file. std::invalid_argument for one of another identity; FormatError; IoError.
std::optional<RunResult> read_result(const std::string& path, const std::string& identity);

}  // namespace qkv::comparison
