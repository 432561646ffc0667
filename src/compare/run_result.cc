// Writes and reads the results of trainings.
#include "compare/run_result.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/refuse.h"
#include "io/json_document.h"
#include "qkv/files.h"

namespace qkv::comparison {
namespace {

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
    refuse(path, "is of another comparison ({}; this one: {}); give another folder", found, identity);
  }
  return RunResult{.parameters = root["parameters"].integer(0, INT64_MAX),
                   .asked = root["asked"].integer(0, INT64_MAX),
                   .accuracy = pairs_in(root["accuracy"]),
                   .gradients = pairs_in(root["gradients"]),
                   .norms = {root["largest_norm"].number(), root["median_norm"].number()}};
}

}  // namespace qkv::comparison
