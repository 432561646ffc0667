// A comparison as tables and small drawings for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/mathematics.h"
#include "io/wrap.h"
#include "lab/compare/catalog.h"
#include "lab/compare/compare.h"

namespace qkv {
namespace {

constexpr std::size_t kWidth = 80;  // of a terminal

// Rows of words in aligned columns; those that the width does not hold stand below, behind the names of the
// rows again.
class TextTable {
 public:
  // The first `names` columns say what a row is about.
  explicit TextTable(std::size_t names = 1) : names_(names) {}

  // The first row names the columns; the first column is aligned left, all others right.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::size_t names_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters of UTF-8: bytes that do not continue one.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto cell = [&](const std::vector<std::string>& row, std::size_t i) {
    const std::string blanks(widths[i] - width_of(row[i]), ' ');
    return "  " + (i == 0 ? row[i] + blanks : blanks + row[i]);
  };
  std::size_t before = 0;  // columns that the names take
  for (std::size_t i = 0; i < names_; ++i) before += 2 + widths[i];
  for (std::size_t first = names_, end = first; first < widths.size(); first = end) {
    for (std::size_t room = before; end < widths.size(); ++end) {
      room += 2 + widths[end];
      if (end > first && room > kWidth) break;
    }
    if (first > names_) text += "\n";
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < names_; ++i) line += cell(row, i);
      for (std::size_t i = first; i < std::min(end, row.size()); ++i) line += cell(row, i);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

// A block for each value, as high as its share of 1; no block for NaN.
std::string sparkline(const std::vector<double>& shares) {
  std::string line;
  for (const double share : shares) {
    if (std::isnan(share)) {
      line += ' ';
      continue;
    }
    // U+2581 to U+2588.
    const auto eighth = std::clamp(std::lround(share * 8), 1l, 8l);
    line += "\xe2\x96";
    line += static_cast<char>(0x80 + eighth);
  }
  return line;
}

std::string paragraph(const std::string& text) {
  std::string lines;
  for (const std::string& line : wrapped(text, kWidth)) lines += line + "\n";
  return lines;
}

using comparison::catalog_task;

// Half of the distance between the lowest and the highest.
double spread(const ComparedPoint& point) {
  const auto [least, most] = std::minmax_element(point.values.begin(), point.values.end());
  return (*most - *least) / 2;
}

std::string accuracy_text(const ComparedPoint& point) {
  if (point.values.size() < 2) return fmt::format("{:.2f}", point.mean());
  return fmt::format("{:.2f} +-{:.2f}", point.mean(), spread(point));
}

std::vector<std::string> names_of(const std::vector<ComparedTask>& results, std::string first) {
  std::vector<std::string> names{std::move(first)};
  for (const ComparedTask& result : results) names.push_back(result.model);
  return names;
}

std::string tasks_text(const std::vector<ComparedTask>& results) {
  const comparison::CatalogTask& task = catalog_task(results[0].task);
  const std::size_t seeds = results[0].accuracy[0].values.size();
  const std::string text = paragraph(fmt::format(
      "{}: {}; share of right answers{}, {} questions each; a guess is right in {:.2f}", task.name, task.question,
      seeds > 1 ? fmt::format(" of {} seeds, +- half their range", seeds) : "", results[0].asked, results[0].chance));
  TextTable table;
  table.add(names_of(results, task.at));
  for (std::size_t i = 0; i < results[0].accuracy.size(); ++i) {
    std::vector<std::string> row{fmt::format("{}", results[0].accuracy[i].at)};
    for (const ComparedTask& result : results) row.push_back(accuracy_text(result.accuracy[i]));
    table.add(std::move(row));
  }
  std::vector<std::string> lines{""}, parameters{"parameters"};
  for (const ComparedTask& result : results) {
    std::vector<double> shares;
    for (const ComparedPoint& point : result.accuracy) shares.push_back(point.mean());
    lines.push_back(sparkline(shares));
    parameters.push_back(fmt::format("{}", result.parameters));
  }
  table.add(std::move(lines));
  table.add(std::move(parameters));
  return text + table.text() + "\n";
}

// Gradients from 1e-12 to 1 of the largest, by their logarithm.
std::string gradient_line(const ComparedGradient& gradient) {
  double largest = 0;
  for (const ComparedPoint& point : gradient.norm) largest = std::max(largest, point.mean());
  std::vector<double> shares;
  for (const ComparedPoint& point : gradient.norm) {
    const double norm = point.mean();
    shares.push_back(norm > 0 ? 1 + log10(norm / largest) / 12 : std::numeric_limits<double>::quiet_NaN());
  }
  return sparkline(shares);
}

std::string gradients_text(const std::vector<ComparedGradient>& gradients) {
  TextTable table(2);
  std::vector<std::string> names{"model", "training"};
  for (const ComparedPoint& point : gradients[0].norm) names.push_back(fmt::format("{}", point.at));
  names.push_back("last / first");
  table.add(std::move(names));
  for (const ComparedGradient& gradient : gradients) {
    std::vector<std::string> row{gradient.model, gradient.when};
    for (const ComparedPoint& point : gradient.norm) row.push_back(fmt::format("{:.0e}", point.mean()));
    row.push_back(fmt::format("{:.1e}", gradient.ratio()));
    row.push_back(gradient_line(gradient));
    table.add(std::move(row));
  }
  return paragraph("gradient of a loss at the embedding of a token N tokens earlier (norm, mean of the seeds)") +
         table.text() + "\n";
}

std::string clipping_text(const std::vector<ComparedClipping>& clipping) {
  TextTable table(2);
  table.add({"model", "gradients", "median norm", "largest norm", "right answers"});
  for (const ComparedClipping& one : clipping) {
    table.add({one.model, one.clip > 0 ? fmt::format("clipped at {:g}", one.clip) : "not clipped",
               fmt::format("{:.1f}", ComparedPoint{.values = one.median}.mean()),
               fmt::format("{:.1f}", *std::max_element(one.largest.begin(), one.largest.end())),
               accuracy_text({.values = one.accuracy})});
  }
  return "norm of all gradients together, before clipping, over trainings on recall\n" + table.text() + "\n";
}

std::string structure_text(const std::vector<ComparedStructure>& structure) {
  TextTable table(2);
  const ComparedStructure& first = structure[0];
  const std::int64_t length = first.sequential_steps.lengths.back();
  table.add({"model", "work", "steps", "path", "reach", "measured",
             fmt::format("at {}", first.operations_at_once.lengths.front()),
             fmt::format("at {}", first.operations_at_once.lengths.back()),
             fmt::format("after {}", first.operations_in_turn.lengths.front()),
             fmt::format("after {}", first.operations_in_turn.lengths.back())});
  for (const ComparedStructure& one : structure) {
    const auto operations = [](double value) { return fmt::format("{:.1f}k", value / 1000); };
    const auto reach = [&](std::int64_t tokens) {
      return tokens == one.reach_length - 1 ? "all" : fmt::format("{}", tokens);
    };
    table.add({one.model, one.work, fmt::format("{:.0f}", one.sequential_steps.values.back()),
               fmt::format("{:.0f}", one.longest_path.values.back()), reach(one.reach), reach(one.measured_reach),
               operations(one.operations_at_once.values.front()), operations(one.operations_at_once.values.back()),
               operations(one.operations_in_turn.values.front()), operations(one.operations_in_turn.values.back())});
  }
  return paragraph(fmt::format(
             "counted from the layers, of {} tokens: sequential steps, longest path between two positions, reach "
             "(counted, and measured by changing tokens); operations per token, read at once and after N others",
             length)) +
         table.text() + "\n";
}

std::string cost_text(const std::vector<ComparedCost>& costs) {
  TextTable table(4);
  const std::vector<std::int64_t>& lengths = costs[0].seconds.lengths;
  const auto with_length = [&](const char* what, std::int64_t length) { return fmt::format("{} at {}", what, length); };
  table.add({"model", "work", "phase", "threads", with_length("us", lengths.front()), with_length("us", lengths.back()),
             "grows as", with_length("bytes", lengths.front()), with_length("bytes", lengths.back()), "grows as"});
  for (const ComparedCost& cost : costs) {
    std::vector<std::string> row{cost.model, cost.work, cost.phase, fmt::format("{}", cost.threads)};
    const auto add = [&](const ComparedGrowth& growth, double scale) {
      for (const double value : {growth.values.front(), growth.values.back()}) {
        row.push_back(fmt::format("{:.{}f}", value * scale, value * scale < 100 ? 2 : 0));
      }
      row.push_back(growth.exponent
                        ? fmt::format("length^({:.2f} +-{:.2f})", growth.exponent->value, growth.exponent->error)
                        : "-");
    };
    add(cost.seconds, 1e6);
    if (cost.memory) add(*cost.memory, 1);
    table.add(std::move(row));
  }
  return paragraph(
             "time and memory per token, of a sequence of N tokens; growth, from four lengths on: the exponent of "
             "the best fit, +- its standard error") +
         table.text() + "\n";
}

}  // namespace

std::string to_text(const Comparison& comparison) {
  std::string text;
  if (comparison.effort == CompareEffort::quick) {
    text += paragraph("After a few updates nothing is learned: these numbers only show that everything runs.") + "\n";
  }
  std::vector<ComparedTask> same;
  for (std::size_t i = 0; i < comparison.tasks.size(); ++i) {
    same.push_back(comparison.tasks[i]);
    if (i + 1 < comparison.tasks.size() && comparison.tasks[i + 1].task == same[0].task) continue;
    text += tasks_text(same);
    same.clear();
  }
  if (!comparison.gradients.empty()) text += gradients_text(comparison.gradients);
  if (!comparison.clipping.empty()) text += clipping_text(comparison.clipping);
  if (!comparison.structure.empty()) text += structure_text(comparison.structure);
  if (!comparison.cost.empty()) text += cost_text(comparison.cost);
  return text;
}

}  // namespace qkv
