// Rotates heads, by frequencies that may be scaled.
#include "layers/basic/rotary_angles.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "layers/basic/layer_checks.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Positions are made a page at a time. Of pages behind so many the last ones are kept, which serve all layers and the
// next tokens: all of a long text take more memory than their time is worth.
constexpr int kPageBits = 6;
constexpr std::int32_t kPagePositions = 1 << kPageBits, kKeptPages = 2048 / kPagePositions;
constexpr std::size_t kLastPages = 32;

double frequency(double base, double pair, double half) { return pow(base, -pair / half); }

// The pair that makes so many turns over the positions that the model was trained with; between two, a fraction.
double pair_of_turns(double turns, const RotaryConfig& config, double half) {
  return half * log(static_cast<double>(config.scaling.trained) / (turns * 2 * std::numbers::pi)) / log(config.base);
}

// f_i of `low` and below, f_i / factor of `high` and above, between them both, mixed linearly over i.
void scale_yarn(const RotaryConfig& config, std::span<double> frequencies) {
  const RotaryScaling& scaling = config.scaling;
  const auto half = static_cast<double>(frequencies.size());
  double low = pair_of_turns(scaling.fast, config, half), high = pair_of_turns(scaling.slow, config, half);
  if (scaling.whole) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, 2 * half - 1);
  if (low == high) high += 0.001;  // as transformers has it
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double share = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= share / scaling.factor + (1 - share);
  }
}

void scale_llama3(const RotaryScaling& scaling, std::span<double> frequencies) {
  for (double& f : frequencies) {
    const double turns = static_cast<double>(scaling.trained) * f / (2 * std::numbers::pi);
    const double share = std::clamp((turns - scaling.slow) / (scaling.fast - scaling.slow), 0.0, 1.0);
    f *= (1 - share) / scaling.factor + share;
  }
}

// Of all pairs, at one position.
std::vector<double> frequencies_of(const RotaryConfig& config, std::int64_t half, std::int32_t position) {
  using enum RotaryScaling::Kind;
  const RotaryScaling& scaling = config.scaling;
  const auto dims = static_cast<double>(2 * half);
  double base = config.base;
  if (scaling.kind == dynamic && position >= scaling.trained) {
    const double stretched = scaling.factor * (position + 1.0) / static_cast<double>(scaling.trained);
    base *= pow(stretched - (scaling.factor - 1), dims / (dims - 2));
  }
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies.push_back(frequency(base, static_cast<double>(i), static_cast<double>(half)));
    if (scaling.kind == linear) frequencies.back() /= scaling.factor;
  }
  if (scaling.kind == yarn) scale_yarn(config, frequencies);
  if (scaling.kind == llama3) scale_llama3(scaling, frequencies);
  return frequencies;
}

// Pair i is first[i * step] and second[i * step].
template <int step, class T>
void turn(T* first, T* second, const T* cosine, const T* sine, T direction, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T a = first[i * step], b = second[i * step], s = direction * sine[i];
    first[i * step] = a * cosine[i] - b * s;
    second[i * step] = a * s + b * cosine[i];
  }
}

std::int64_t pairs_of(const RotaryConfig& config, std::int64_t head_dim) {
  return (config.dims > 0 ? config.dims : head_dim) / 2;
}

}  // namespace

RotaryAngles::RotaryAngles(const RotaryConfig& config, std::int64_t head_dim)
    : config_(config), half_(pairs_of(config, head_dim)), frequencies_(frequencies_of(config, half_, 0)) {}

std::shared_ptr<RotaryAngles> RotaryAngles::shared(const RotaryConfig& config, std::int64_t head_dim) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<RotaryAngles>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& one) { return one.expired(); });
  for (const auto& one : all) {
    const std::shared_ptr<RotaryAngles> angles = one.lock();
    if (angles && angles->config_ == config && angles->half_ == pairs_of(config, head_dim)) return angles;
  }
  auto angles = std::make_shared<RotaryAngles>(config, head_dim);
  all.push_back(angles);
  return angles;
}

Tensor RotaryAngles::make_page(std::int32_t page, Dtype dtype) const {
  const double magnitude = config_.scaling.magnitude;
  const bool is_dynamic = config_.scaling.kind == RotaryScaling::Kind::dynamic;
  Tensor made = Tensor::uninitialized({kPagePositions, 2 * half_}, dtype);
  const auto fill = [&]<class T>(T) {
    T* to = made.data<T>();
    for (std::int32_t i = 0; i < kPagePositions; ++i) {
      const std::int32_t position = page * kPagePositions + i;
      const bool is_stretched = is_dynamic && position >= config_.scaling.trained;
      const auto frequencies = is_stretched ? frequencies_of(config_, half_, position) : frequencies_;
      for (const double f : frequencies) *to++ = static_cast<T>(magnitude * cos(position * f));
      for (const double f : frequencies) *to++ = static_cast<T>(magnitude * sin(position * f));
    }
  };
  visit_f32_f64(dtype, fill);
  return made;
}

std::shared_ptr<const Tensor> RotaryAngles::far_page(std::int32_t page, Dtype dtype) {
  const auto found =
      std::ranges::find_if(last_, [&](const FarPage& one) { return one.page == page && one.angles->dtype() == dtype; });
  if (found != last_.end()) return found->angles;
  if (last_.size() == kLastPages) last_.pop_front();
  return last_.emplace_back(page, std::make_shared<const Tensor>(make_page(page, dtype))).angles;
}

RotaryRows RotaryAngles::of(std::span<const std::int32_t> positions, Dtype dtype) {
  RotaryRows all;
  all.rows.reserve(positions.size());
  std::unordered_map<std::int32_t, std::size_t> far;
  const std::lock_guard lock(mutex_);
  StopTurns turns;
  for (const std::int32_t position : positions) {
    turns.next();
    const std::int32_t page = position >> kPageBits;
    const Tensor* made = nullptr;
    if (page >= 0 && page < kKeptPages) {
      Tensor& kept = (dtype == Dtype::f32 ? floats_ : doubles_)[page];
      if (kept.rank() == 1) kept = make_page(page, dtype);
      made = &kept;
    } else {
      const auto [own, is_new] = far.try_emplace(page, all.far.size());
      if (is_new) all.far.push_back(far_page(page, dtype));
      made = all.far[own->second].get();
    }
    all.rows.push_back(made->view().select(0, position - page * kPagePositions).bytes());
  }
  return all;
}

void RotaryAngles::rotate(const RotaryRows& angles, std::int64_t first, std::int64_t heads,
                          const MutableTensorView& rows, int direction, int threads) const {
  const std::int64_t count = rows.size(0), head_dim = rows.size(1) / heads;
  const auto run = [&]<class T>(T) {
    constexpr std::int64_t kRotatedRows = 64;
    parallel_for(divide_up(count, kRotatedRows), threads, [&](std::int64_t task, int) {
      for (std::int64_t r = task * kRotatedRows; r < std::min((task + 1) * kRotatedRows, count); ++r) {
        const T* cosine = reinterpret_cast<const T*>(angles.rows[static_cast<std::size_t>(first + r)]);
        const T* sine = cosine + half_;
        for (std::int64_t h = 0; h < heads; ++h) {
          T* head = rows.data<T>() + r * rows.stride(0) + h * head_dim;
          config_.pairs == RotaryPairs::halves
              ? turn<1>(head, head + half_, cosine, sine, static_cast<T>(direction), half_)
              : turn<2>(head, head + 1, cosine, sine, static_cast<T>(direction), half_);
        }
      }
    });
  };
  visit_f32_f64(rows.dtype(), run);
}

inline namespace layers {

void check_rotary(std::string_view layer, const RotaryConfig& config, std::int64_t head_dim) {
  const std::int64_t dims = config.dims > 0 ? config.dims : head_dim;
  const RotaryScaling& scaling = config.scaling;
  refuse_unless(config.base > 0 && std::isfinite(config.base), layer, "base is {}; it must be a finite number above 0",
                config.base);
  refuse_unless(config.dims >= 0 && dims <= head_dim && dims % 2 == 0, layer,
                "{} of head_dim {} rotate; rotary positions need pairs", dims, head_dim);
  if (scaling.kind == RotaryScaling::Kind::none) return;
  const bool is_linear = scaling.kind == RotaryScaling::Kind::linear;
  refuse_unless(scaling.factor >= 1 && std::isfinite(scaling.factor) && std::isfinite(scaling.magnitude), layer,
                "the factor of the rotary scaling is {}; it must be 1 or more", scaling.factor);
  refuse_unless(is_linear || scaling.trained >= 1, layer,
                "the rotary scaling needs the positions of the training, has {}", scaling.trained);
  refuse_unless(scaling.slow > 0 && scaling.slow < scaling.fast && std::isfinite(scaling.fast), layer,
                "the rotary scaling mixes from {} to {} turns; they must be above 0 and grow", scaling.slow,
                scaling.fast);
  refuse_unless(scaling.kind != RotaryScaling::Kind::dynamic || dims > 2, layer,
                "the dynamic rotary scaling needs more than one pair, head_dim is {}", head_dim);
}

}  // namespace layers

void rotate_heads(const RotaryConfig& config, std::span<const std::int32_t> positions, std::int64_t heads, Tensor& rows,
                  int direction, int threads) {
  const std::int64_t count = std::ssize(positions);
  if (rows.rank() != 2 || rows.size(0) != count || heads < 1 || rows.size(1) % heads != 0) {
    refuse("rotate_heads", "rows are {}; {} positions and {} heads need [{}, heads * head_dim]",
           to_string(rows.shape()), count, heads, count);
  }
  const std::int64_t head_dim = rows.size(1) / heads;
  check_rotary("rotate_heads", config, head_dim);
  RotaryAngles angles(config, head_dim);
  angles.rotate(angles.of(positions, rows.dtype()), 0, heads, rows, direction, threads);
}

}  // namespace qkv
