/// \file
/// A report: explanations as one HTML file that needs no other, neither on disk nor from a network. A page draws them
/// (web/), and the tables of their numbers can be read without it, where scripts do not run.
///
///     Report report;
///     report.add(explain(worked_example()));
///     write_file("report.html", report.html("The worked example", "qkv explain --html report.html"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/picture_attention.h"
#include "qkv/explain/token_measures.h"

namespace qkv {

inline constexpr std::size_t kLargestReport = 20'000'000;  ///< bytes

/// What makes a page compute: qkv as WebAssembly, and the files that it finds there.
struct PageEngine {
  std::string_view module{};                   ///< as compressed by zstd
  std::map<std::string, std::string> files{};  // "/model/config.json" -> its bytes
};

/// A run of which explain wrote the JSON.
struct RecordedRun {
  std::string kind{};  // "steps"
  std::string json{};
};

/// FormatError, which `name` begins, if the text is no such JSON, or of another major version than ours.
QKV_API RecordedRun read_recorded_run(std::string json, const std::string& name);

class QKV_API Report {
 public:
  void add(const Explanation& explanation);
  void add(const HeadSurvey& survey);  ///< its heads are drawn if it kept maps or weights
  void add(const HeadTrace& trace, std::optional<std::int64_t> token = {});
  void add(const TokenMeasures& measures);
  void add(const PictureAttention& seen, const TensorView& view);
  void add(const AttentionMaps& maps);  ///< after the call that wrote them

  /// The page can also show this run next to an added one of its kind, and their difference. It has no tables.
  void add_beside(RecordedRun run);

  /// The page has the engine, too: what it shows can be changed there. std::invalid_argument if a report has no room
  /// for both.
  void add(const PageEngine& engine);

  /// At most kLargestReport bytes: the largest tables go first, then the weights of all heads, then whole explanations;
  /// the report says which. `command` is what writes it again.
  /// `start`: the view that a page shows first, as its address has it ("view=heads&head=0.1"); empty: the first one.
  std::string html(const std::string& title, const std::string& command, const std::string& start = "") const;

 private:
  struct Part {
    std::string name;
    std::string json, json_without_weights{};  ///< the latter if it differs
    std::string tables;
    bool weights_left_out = false;
    bool beside = false;
  };
  std::vector<Part> parts_{};
  std::string engine_{};  ///< elements of the page
};

}  // namespace qkv
