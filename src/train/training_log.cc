// Writes log.jsonl, and the curve of the losses as a picture.
#include "train/training_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/mathematics.h"
#include "io/files/descriptor.h"
#include "io/json/json_document.h"
#include "io/json/json_events.h"
#include "io/svg.h"
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
  if (validation.bits_per_byte) line["bits_per_byte"] = io::json_number(*validation.bits_per_byte);
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

namespace {

constexpr double kWidth = 720, kHeight = 360, kLeft = 52, kRight = 16, kTop = 28, kBottom = 36;
constexpr const char* kTrainingColor = "#0969da";
constexpr const char* kValidationColor = "#cf222e";

// 1, 2 or 5 times a power of ten, of which a range holds about five.
double tick_distance(double range) {
  const double rough = range / 5, power = pow(10, std::floor(log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

// Maps numbers to positions in the picture. Losses begin at 0, so that the height of a curve says what is left.
struct Axes {
  double steps = 1, loss = 1;

  double x(double step) const { return kLeft + (kWidth - kLeft - kRight) * step / steps; }
  double y(double value) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * value / loss; }
};

void draw_axes(io::Svg& svg, const Axes& axes) {
  const double loss_tick = tick_distance(axes.loss), step_tick = std::max(1.0, tick_distance(axes.steps));
  for (int i = 0; i * loss_tick <= axes.loss; ++i) {
    const double y = axes.y(i * loss_tick);
    svg.line({{kLeft, y}, {kWidth - kRight, y}}, {.stroke = "#d0d7de"});
    svg.text(kLeft - 6, y + 4, fmt::format("{:g}", i * loss_tick), {.fill = io::kFaint, .anchor = io::Anchor::end});
  }
  for (int i = 0; i * step_tick <= axes.steps; ++i) {
    svg.text(axes.x(i * step_tick), kHeight - kBottom + 18, fmt::format("{:.0f}", i * step_tick),
             {.fill = io::kFaint, .anchor = io::Anchor::middle});
  }
}

void draw_curve(io::Svg& svg, const Axes& axes, std::span<const CurvePoint> points, const char* color) {
  io::Svg::Points curve;
  for (const CurvePoint& point : points) {
    curve.emplace_back(axes.x(static_cast<double>(point.step)), axes.y(point.loss));
  }
  svg.line(curve, {.stroke = color, .width = 1.5});
}

// The lowest point of the validation: its step is the one that a training calls its best.
void draw_best(io::Svg& svg, const Axes& axes, std::span<const CurvePoint> validation) {
  if (validation.empty()) return;
  const CurvePoint& best = *std::min_element(validation.begin(), validation.end(),
                                             [](const auto& a, const auto& b) { return a.loss < b.loss; });
  const double x = axes.x(static_cast<double>(best.step)), y = axes.y(best.loss);
  const bool right = x > kWidth / 2;
  svg.circle(x, y, 4, kValidationColor);
  svg.text(x + (right ? -8 : 8), y - 8, fmt::format("best: {:.4f} at step {}", best.loss, best.step),
           {.fill = kValidationColor, .anchor = right ? io::Anchor::end : io::Anchor::start});
}

}  // namespace

std::string loss_curve_svg(std::span<const CurvePoint> training, std::span<const CurvePoint> validation) {
  Axes axes;
  for (const auto& points : {training, validation}) {
    for (const CurvePoint& point : points) {
      axes.steps = std::max(axes.steps, static_cast<double>(point.step));
      axes.loss = std::max(axes.loss, point.loss);
    }
  }
  io::Svg svg;
  draw_axes(svg, axes);
  draw_curve(svg, axes, training, kTrainingColor);
  draw_curve(svg, axes, validation, kValidationColor);
  draw_best(svg, axes, validation);
  svg.text(kLeft, 18, "training, with dropout", {.fill = kTrainingColor});
  svg.text(kLeft + 170, 18, "validation", {.fill = kValidationColor});
  svg.text(kWidth - kRight, 18, "nats per target token without label smoothing, over steps",
           {.fill = io::kFaint, .anchor = io::Anchor::end});
  return svg.picture(kWidth, kHeight, "Loss over the steps of a training");
}

}  // namespace qkv::training
