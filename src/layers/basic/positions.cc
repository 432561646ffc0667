// Computes positions, sinusoids and rotations.
#include "qkv/layers/positions.h"

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

// The cosines and sines of all pairs, once for each position that occurs: sequences of a batch share most of them.
template <class T>
class RotaryAngles {
 public:
  RotaryAngles(const RotaryConfig& config, std::span<const std::int32_t> positions, std::int64_t half, int direction)
      : distinct_(positions.begin(), positions.end()), half_(half) {
    std::sort(distinct_.begin(), distinct_.end());
    distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
    cosines_.reserve(distinct_.size() * static_cast<std::size_t>(half));
    sines_.reserve(distinct_.size() * static_cast<std::size_t>(half));
    const bool dynamic = config.scaling.kind == RotaryScaling::Kind::dynamic;
    const double magnitude = config.scaling.magnitude;
    std::vector<double> frequencies = frequencies_of(config, half, 0);
    for (const std::int32_t position : distinct_) {
      check_stop();
      if (dynamic && position >= config.scaling.trained) frequencies = frequencies_of(config, half, position);
      for (const double frequency : frequencies) {
        const double angle = position * frequency;
        cosines_.push_back(static_cast<T>(magnitude * cos(angle)));
        sines_.push_back(static_cast<T>(magnitude * direction * sin(angle)));
      }
    }
  }

  struct Row {
    const T *cosine, *sine;
  };
  Row at(std::int32_t position) const {
    const auto row = std::lower_bound(distinct_.begin(), distinct_.end(), position) - distinct_.begin();
    return {cosines_.data() + row * half_, sines_.data() + row * half_};
  }

 private:
  std::vector<std::int32_t> distinct_;
  std::int64_t half_;
  std::vector<T> cosines_, sines_;
};

// Pair i is first[i * step] and second[i * step].
template <int step, class T>
void turn(T* first, T* second, const T* cosine, const T* sine, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T a = first[i * step], b = second[i * step];
    first[i * step] = a * cosine[i] - b * sine[i];
    second[i * step] = a * sine[i] + b * cosine[i];
  }
}

}  // namespace

std::vector<std::int32_t> positions_of(const TensorView& offsets, std::int64_t most) {
  if (!offsets || offsets.dtype() != Dtype::i32 || offsets.rank() != 1 || offsets.size(0) < 1) {
    refuse("positions", "offsets must be i32 [batch + 1]");
  }
  std::vector<std::int32_t> positions;
  for (std::int64_t b = 0; b + 1 < offsets.size(0); ++b) {
    const std::int64_t length = std::int64_t{offsets.at<std::int32_t>({b + 1})} - offsets.at<std::int32_t>({b});
    if (length < 0 || length > most) {
      refuse("positions", "sequence {} has {} rows; there are positions for 0 to {}", b, length, most);
    }
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
  }
  return positions;
}

Tensor sinusoids(std::int64_t count, std::int64_t dim, SinusoidOrder order, Dtype dtype) {
  check_size("sinusoids", "count", count);
  check_size("sinusoids", "dim", dim);
  Tensor table = Tensor::uninitialized({count, dim}, Dtype::f64);
  const std::int64_t sines = (dim + 1) / 2;
  for (std::int64_t p = 0; p < count; ++p) {
    check_stop();
    double* row = table.data<double>() + p * dim;
    for (std::int64_t i = 0; i < sines; ++i) {
      const double angle = static_cast<double>(p) / pow(10000.0, static_cast<double>(2 * i) / static_cast<double>(dim));
      const std::int64_t cosine = order == SinusoidOrder::in_turns ? 2 * i + 1 : sines + i;
      row[order == SinusoidOrder::in_turns ? 2 * i : i] = sin(angle);
      if (cosine < dim) row[cosine] = cos(angle);
    }
  }
  return convert(table, dtype);
}

void add_positions(const TensorView& table, std::span<const std::int32_t> positions, Tensor& x) {
  const std::int64_t rows = static_cast<std::int64_t>(positions.size());
  if (table.rank() != 2 || !table.is_row_major() || x.shape() != Dims{rows, table.size(1)} ||
      x.dtype() != table.dtype()) {
    refuse("add_positions", "{} rows {} need a table {} [count, dim] of their width, not {}", name_of(x.dtype()),
           to_string(x.shape()), name_of(x.dtype()), to_string(table.shape()));
  }
  const auto run = [&]<class T>(T) {
    T* to = x.data<T>();
    StopTurns turns;
    for (const std::int32_t position : positions) {
      turns.next();
      if (position < 0 || position >= table.size(0)) {
        refuse("add_positions", "position {} is not in a table of {}", position, table.size(0));
      }
      const T* from = table.data<T>() + position * table.size(1);
      for (std::int64_t i = 0; i < table.size(1); ++i) *to++ += from[i];
    }
  };
  visit_f32_f64(x.dtype(), run);
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
  const std::int64_t count = static_cast<std::int64_t>(positions.size());
  if (rows.rank() != 2 || rows.size(0) != count || heads < 1 || rows.size(1) % heads != 0) {
    refuse("rotate_heads", "rows are {}; {} positions and {} heads need [{}, heads * head_dim]",
           to_string(rows.shape()), count, heads, count);
  }
  const std::int64_t head_dim = rows.size(1) / heads, half = (config.dims > 0 ? config.dims : head_dim) / 2;
  check_rotary("rotate_heads", config, head_dim);
  const auto run = [&]<class T>(T) {
    const RotaryAngles<T> angles(config, positions, half, direction);
    constexpr std::int64_t kRotatedRows = 64;
    parallel_for(divide_up(count, kRotatedRows), threads, [&](std::int64_t task, int) {
      for (std::int64_t r = task * kRotatedRows; r < std::min((task + 1) * kRotatedRows, count); ++r) {
        const auto [cosine, sine] = angles.at(positions[static_cast<std::size_t>(r)]);
        for (std::int64_t h = 0; h < heads; ++h) {
          T* head = rows.data<T>() + r * rows.size(1) + h * head_dim;
          config.pairs == RotaryPairs::halves ? turn<1>(head, head + half, cosine, sine, half)
                                              : turn<2>(head, head + 1, cosine, sine, half);
        }
      }
    });
  };
  visit_f32_f64(rows.dtype(), run);
}

}  // namespace qkv
