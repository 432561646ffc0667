// Finishes a run: what is already done is read, the rest is trained and measured.
#include "lab/compare/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "core/refuse.h"
#include "io/files/descriptor.h"
#include "io/json/json_document.h"
#include "lab/compare/catalog.h"
#include "lab/compare/pair_tasks.h"
#include "lab/compare/sequence_tasks.h"
#include "qkv/decode/generate.h"
#include "qkv/files.h"
#include "qkv/random.h"
#include "qkv/train/training.h"

namespace qkv::comparison {
namespace {

// Examples for training, validation and measuring are disjoint for every seed.
enum class Use : std::uint64_t { training, validation, measuring };

std::uint64_t seed_for(Use use, std::uint64_t seed) {
  Random random(seed, static_cast<std::uint64_t>(use));
  const std::uint64_t high = random.bits();
  return high << 32 | random.bits();
}

struct RunPlace {
  std::string folder;
  std::string identity;  // what the weights depend on
  std::function<void(std::int64_t)> on_step;
};

// Calls back at each update.
class StepObserver : public TrainingObserver {
 public:
  explicit StepObserver(const std::function<void(std::int64_t)>& on_step) : on_step_(on_step) {}
  void receive(const TrainingProgress& progress) override { on_step_(progress.step); }
  void receive(const Validation&) override {}
  void notice(const std::string&) override {}

 private:
  const std::function<void(std::int64_t)>& on_step_;
};

// Adam with a cosine schedule, and one checkpoint, at the end.
TrainingConfig config_of(const Run& run) {
  return {.seed = run.seed,
          .steps = run.steps,
          .batch_tokens = run.batch_tokens,
          .adam = {.beta2 = 0.99, .epsilon = 1e-8},
          .schedule = {.rate = catalog_task(run.task).rate, .warmup = run.steps / 20, .decay = Decay::cosine},
          .clip = run.clip,
          .log_every = 1,
          .validate_every = run.steps};
}

// The norms in the log of a training.
GradientNorms norms_in(const std::string& log) {
  const std::string text = read_file(log);
  std::vector<double> norms;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const io::JsonDocument line(std::string_view(text).substr(begin, end - begin), log);
    if (const auto norm = line.root().find("gradient_norm")) norms.push_back(norm->number());
  }
  if (norms.empty()) return {};
  std::sort(norms.begin(), norms.end());
  return {.largest = norms.back(), .median = norms[norms.size() / 2]};
}

// Trains; returns the norms of all updates, those before an interruption too.
template <class Batch>
GradientNorms train_run(const Run& run, const RunPlace& place, TrainableOn<Batch>& model,
                        const TrainingData<Batch>& data) {
  StepObserver observer(place.on_step);
  train(model, data, config_of(run), place.folder, {.observer = &observer, .identity = {{"run", place.identity}}});
  return norms_in(place.folder + "/log.jsonl");
}

constexpr std::int64_t kTrainingExamples = 1 << 15, kValidationExamples = 64;
constexpr std::int64_t kMeasuredAtOnce = 100;  // examples

RunResult run_reader(const Run& run, const RunPlace& place) {
  const SequenceTask task = sequence_task(run.task);
  SequenceModel model(sized(sequence_kind(run.model), vocab_of(task), catalog_task(run.task).parameters), run.seed);
  const SequenceExamples train(task, seed_for(Use::training, run.seed), kTrainingExamples);
  const SequenceExamples valid(task, seed_for(Use::validation, run.seed), kValidationExamples);
  RunResult result{.parameters = parameter_count(model), .asked = std::numeric_limits<std::int64_t>::max()};
  result.norms = train_run<SequenceBatch>(run, place, model, {.train = train, .valid = valid});
  for (const std::int64_t extent : extents_of(task)) {
    LossSum sum;
    for (std::int64_t done = 0; done < run.examples; done += kMeasuredAtOnce) {
      const std::vector<std::int64_t> extents(static_cast<std::size_t>(std::min(kMeasuredAtOnce, run.examples - done)),
                                              extent);
      const auto index = static_cast<std::uint64_t>(extent << 32 | done);
      const LossSum part = model.loss(draw_batch(task, extents, seed_for(Use::measuring, run.seed) ^ index));
      sum.metric += part.metric;
      sum.count += part.count;
    }
    result.accuracy[extent] = sum.metric / static_cast<double>(sum.count);
    result.asked = std::min(result.asked, sum.count);
  }
  if (task == SequenceTask::recall) result.gradients = input_gradients(model, run.seed);
  return result;
}

constexpr std::int64_t kPairExamples = 1 << 15, kPairsToValidate = 64;

// The most probable token at each step, without the end.
std::vector<std::vector<std::int32_t>> answers(const TranslatorModel& model, const std::vector<TokenPair>& pairs) {
  std::vector<std::uint32_t> all(pairs.size());
  std::iota(all.begin(), all.end(), 0u);
  const PairBatch batch = PairExamples(pairs).collect(all);
  const EncoderDecoderTokens tokens = model.model().tokens();
  const std::unique_ptr<NextTokens> next = model.model().decoder(batch.source, batch.source_offsets);
  std::vector<std::vector<std::int32_t>> written;
  for (auto& best : generate(*next, std::ssize(pairs),
                             {.start = tokens.start, .ends = {tokens.end}, .max_length = tokens.positions - 1})) {
    written.push_back(std::move(best[0].tokens));
    if (!written.back().empty() && written.back().back() == tokens.end) written.back().pop_back();
  }
  return written;
}

// Measures the share of symbols in their place.
RunResult run_reversal(const Run& run, const RunPlace& place) {
  const std::int64_t longest = reversal_extents().back();
  const EncoderDecoderTokens tokens = reversal_tokens(longest + 2);
  TranslatorModel model(sized(translator_kind(run.model), tokens, catalog_task(run.task).parameters), run.seed);
  const ReversalExamples train(seed_for(Use::training, run.seed), kPairExamples);
  const ReversalExamples valid(seed_for(Use::validation, run.seed), kPairsToValidate);
  RunResult result{.parameters = parameter_count(model), .asked = std::numeric_limits<std::int64_t>::max()};
  result.norms = train_run<PairBatch>(run, place, model, {.train = train, .valid = valid});
  for (const std::int64_t extent : reversal_extents()) {
    std::vector<TokenPair> pairs;
    for (std::int64_t i = 0; i < run.examples; ++i) {
      pairs.push_back(
          draw_reversal(extent, seed_for(Use::measuring, run.seed), static_cast<std::uint64_t>(extent << 32 | i)));
    }
    const auto written = answers(model, pairs);
    std::int64_t right = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      for (std::size_t t = 0; t < std::min(written[i].size(), static_cast<std::size_t>(extent)); ++t) {
        right += written[i][t] == pairs[i].target[t];
      }
    }
    const std::int64_t asked = run.examples * extent;
    result.accuracy[extent] = static_cast<double>(right) / static_cast<double>(asked);
    result.asked = std::min(result.asked, asked);
  }
  return result;
}

// Measures the share of phrases that are right as a whole.
RunResult run_phrases(const Run& run, const RunPlace& place, const std::string& phrases) {
  const PhraseBook book = read_phrase_book(phrases);
  TranslatorModel model(sized(translator_kind(run.model), book.tokens, catalog_task(run.task).parameters), run.seed);
  const PairExamples train(book.pairs);
  const PairExamples valid(std::span(book.pairs).first(std::min<std::size_t>(64, book.pairs.size())));
  RunResult result{.parameters = parameter_count(model), .asked = std::numeric_limits<std::int64_t>::max()};
  result.norms = train_run<PairBatch>(run, place, model, {.train = train, .valid = valid});
  for (const auto& [words, numbers] : book.by_words) {
    std::vector<TokenPair> pairs;
    for (const std::size_t number : numbers) pairs.push_back(book.pairs[number]);
    const auto written = answers(model, pairs);
    std::int64_t right = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      right += std::equal(written[i].begin(), written[i].end(), pairs[i].target.begin(), pairs[i].target.end() - 1);
    }
    result.accuracy[words] = static_cast<double>(right) / static_cast<double>(pairs.size());
    result.asked = std::min(result.asked, std::ssize(pairs));
  }
  return result;
}

// `phrases` is the file of the phrase book.
RunResult run_translator(const Run& run, const RunPlace& place, const std::string& phrases) {
  return run.task == "phrases" ? run_phrases(run, place, phrases) : run_reversal(run, place);
}

nlohmann::ordered_json pairs_of(const std::map<std::int64_t, double>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [at, value] : values) list.push_back({at, value});
  return list;
}

std::map<std::int64_t, double> pairs_in(const io::JsonValue& list) {
  std::map<std::int64_t, double> values;
  for (const io::JsonValue& pair : list.elements()) {
    const std::vector<io::JsonValue> both = pair.elements();
    if (both.size() != 2) pair.refuse("must be a list of two numbers");
    values[both[0].integer(0, INT64_MAX)] = both[1].number();
  }
  return values;
}

}  // namespace

void write_result(const std::string& path, const std::string& identity, const RunResult& result) {
  const nlohmann::ordered_json json{{"run", identity},
                                    {"parameters", result.parameters},
                                    {"asked", result.asked},
                                    {"accuracy", pairs_of(result.accuracy)},
                                    {"gradients", pairs_of(result.gradients)},
                                    {"largest_norm", result.norms.largest},
                                    {"median_norm", result.norms.median}};
  write_file(path, json.dump() + "\n");
}

std::optional<RunResult> read_result(const std::string& path, const std::string& identity) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  if (const std::string found = root["run"].string(); found != identity) {
    refuse_path(path, "is of another comparison ({}; this one: {}); give another folder", found, identity);
  }
  return RunResult{.parameters = root["parameters"].integer(0, INT64_MAX),
                   .asked = root["asked"].integer(0, INT64_MAX),
                   .accuracy = pairs_in(root["accuracy"]),
                   .gradients = pairs_in(root["gradients"]),
                   .norms = {root["largest_norm"].number(), root["median_norm"].number()}};
}

namespace {

std::string folder_of(const Run& run, const RunFiles& files) { return files.folder + "/" + run.name(); }

// The dependencies of a result.
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
  io::create_folders(own);
  const RunPlace place{.folder = own, .identity = identity_of(run), .on_step = on_step};
  const std::vector<std::string>& models = catalog_task(run.task).models;
  const bool reads = std::all_of(models.begin(), models.end(), is_reader);
  const RunResult result = reads ? run_reader(run, place) : run_translator(run, place, files.phrases);
  write_result(own + "/result.json", identity_of(run), result);
  std::filesystem::remove_all(own + "/checkpoints");
  return result;
}

}  // namespace qkv::comparison
