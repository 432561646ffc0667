// Trains RNNs, CNNs, recurrent encoder-decoders and Transformers of equal size on the same tasks, and compares
// accuracy, reach of gradients, memory and speed.
//
//   Comparison comparison = compare({.tasks = {"recall"}}, "out");
//   std::cout << to_text(comparison);
//
// The same seed gives the same numbers, except times and memory, on any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace qkv {

struct CompareProgress {
  std::string doing{};
  double done = 0;  // a share of all work
  double seconds_left = 0;
};

class CompareObserver {
 public:
  virtual ~CompareObserver() = default;
  // One call at a time, from any thread.
  virtual void receive(const CompareProgress& progress) = 0;
};

enum class CompareEffort {
  full,
  quick,  // a few updates of every model: all there is to see but accuracy
};

struct CompareOptions {
  std::vector<std::string> tasks{}, models{};  // by name; empty: all
  std::string phrases{};                       // pairs of phrases for the task "phrases"; empty: it is left out
  std::uint64_t seed = 1;
  CompareEffort effort = CompareEffort::full;
  CompareObserver* observer = nullptr;
  std::stop_token stop{};  // ends by Stopped; the next call goes on from what is done
};

// A number for each seed.
struct ComparedPoint {
  std::int64_t at = 0;  // distance, length or number, of tokens unless it says otherwise
  std::vector<double> values{};

  double mean() const;
};

struct ComparedTask {
  std::string task{}, model{};
  std::int64_t parameters = 0;
  std::int64_t asked = 0;  // labels behind each value, at least
  double chance = 0;       // of a guess to be right
  std::vector<ComparedPoint> accuracy{};
};

// The norm of the gradient of the loss at the last token, with respect to the embedding of one so many tokens before.
struct ComparedGradient {
  std::string model{};
  std::string when{};  // "start" or "end" of training
  std::vector<ComparedPoint> norm{};

  double ratio() const;  // mean of that at the largest distance by that at the smallest
};

// The norm of all gradients together over a training on recall, before they are cut; for each seed.
struct ComparedClipping {
  std::string model{};
  double clip = 0;  // what they are cut to; 0: they are not
  std::vector<double> largest{}, median{};
  std::vector<double> accuracy{};  // mean over the distances
};

// The exponent of the power of the length that fits best, by least squares of the logarithms.
struct ComparedExponent {
  double value = 0;
  double error = 0;  // its standard error
};

// A number for each length.
struct ComparedGrowth {
  std::vector<std::int64_t> lengths{};
  std::vector<double> values{};
  std::optional<ComparedExponent> exponent{};  // none: fewer than four lengths, or a value that is not above 0
};

// Counted from the layers.
struct ComparedStructure {
  std::string model{};
  std::string work{};  // "reading" a sequence, or "translating" it into one of its length
  std::int64_t parameters = 0;
  ComparedGrowth sequential_steps{}, longest_path{};
  ComparedGrowth operations_at_once{}, operations_in_turn{};  // per token: a sequence read at once, token by token
  std::int64_t reach_length = 0;                              // tokens of the sequence that reach is about
  std::int64_t reach = 0;                                     // how many tokens before its own an output can depend on
  std::int64_t measured_reach = 0;  // how far back a change of a token changes a bit of the output
};

struct ComparedCost {
  std::string model{};
  std::string work{};   // as above; of a translator a token is one of each side
  std::string phase{};  // "training": an update; "answering": token by token
  int threads = 1;
  ComparedGrowth seconds{};                // per token
  std::optional<ComparedGrowth> memory{};  // bytes per token; none: the system does not say
};

struct Comparison {
  std::uint64_t seed = 1;
  CompareEffort effort = CompareEffort::full;
  std::vector<ComparedTask> tasks{};
  std::vector<ComparedGradient> gradients{};
  std::vector<ComparedClipping> clipping{};
  std::vector<ComparedStructure> structure{};
  std::vector<ComparedCost> cost{};
};

// The names of all there are.
std::vector<std::string> compared_tasks();
std::vector<std::string> compared_models();

// Trains and measures, a few minutes in full effort. `folder` gets runs/ (what is done: another call goes on from it),
// comparison.json and drawings.
// std::invalid_argument for a task or model that does not exist, and for a folder of another comparison; IoError.
Comparison compare(const CompareOptions& options, const std::string& folder);

// Tables, with small drawings in the lines of a terminal.
std::string to_text(const Comparison& comparison);
// One JSON object.
std::string to_json(const Comparison& comparison);

}  // namespace qkv
