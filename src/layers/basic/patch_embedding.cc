// PatchEmbedding: gathers patches, projects them, and adds positions, forward and backward.
#include "qkv/layers/patch_embedding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "layers/basic/layer_checks.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr const char* kClassToken = "class_token";
constexpr const char* kPositions = "positions.weight";
constexpr double kBicubic = -0.75;

PatchEmbeddingConfig checked(const PatchEmbeddingConfig& config) {
  check_size("patch_embedding", "channels", config.channels);
  check_size("patch_embedding", "patch.height", config.patch.height);
  check_size("patch_embedding", "patch.width", config.patch.width);
  check_size("patch_embedding", "grid.height", config.grid.height);
  check_size("patch_embedding", "grid.width", config.grid.width);
  return config;
}

// A learnt position, and its share of one that is interpolated.
struct PositionShare {
  std::int64_t position;
  double weight;
};

// The four samples around each of `to` points that are spread over `from` samples.
std::vector<std::array<PositionShare, 4>> bicubic_shares(std::int64_t from, std::int64_t to) {
  const auto near = [](double x) { return ((kBicubic + 2) * x - (kBicubic + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kBicubic * x - 5 * kBicubic) * x + 8 * kBicubic) * x - 4 * kBicubic; };
  std::vector<std::array<PositionShare, 4>> shares;
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double floor = std::floor(at), t = at - floor;
    const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    auto& own = shares.emplace_back();
    for (int n = 0; n < 4; ++n) {
      own[n] = {std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) - 1 + n, 0, from - 1), weights[n]};
    }
  }
  return shares;
}

// What each token's position is made of; of the class token and of a grid that is the learnt one, itself alone.
std::vector<std::vector<PositionShare>> position_shares(const PictureSize& learnt, const PictureSize& grid) {
  std::vector<std::vector<PositionShare>> shares{{{0, 1}}};
  if (learnt == grid) {
    for (std::int64_t i = 0; i < grid.height * grid.width; ++i) shares.push_back({{1 + i, 1}});
    return shares;
  }
  const auto rows = bicubic_shares(learnt.height, grid.height), columns = bicubic_shares(learnt.width, grid.width);
  for (const auto& row : rows) {
    for (const auto& column : columns) {
      auto& own = shares.emplace_back();
      for (const PositionShare& y : row) {
        for (const PositionShare& x : column) {
          own.push_back({1 + y.position * learnt.width + x.position, y.weight * x.weight});
        }
      }
    }
  }
  return shares;
}

// [batch * patches, channels * patch height * patch width], in the order of the projection's weight.
Tensor gather_patches(const TensorView& pictures, const PatchEmbeddingConfig& config, const PictureSize& grid,
                      int threads) {
  const std::int64_t size = config.channels * config.patch.height * config.patch.width;
  const std::int64_t batch = pictures.size(0);
  Tensor patches = Tensor::uninitialized({batch * grid.height * grid.width, size}, pictures.dtype());
  const auto run = [&]<class T>(T) {
    const T* from = pictures.data<T>();
    parallel_for(batch * grid.height, threads, [&](std::int64_t task, int) {
      const std::int64_t b = task / grid.height, row = task % grid.height;
      T* to = patches.data<T>() + task * grid.width * size;
      for (std::int64_t column = 0; column < grid.width; ++column) {
        for (std::int64_t c = 0; c < config.channels; ++c) {
          for (std::int64_t y = row * config.patch.height; y < (row + 1) * config.patch.height; ++y) {
            const T* pixels = from + b * pictures.stride(0) + y * pictures.stride(1) + c * pictures.stride(3);
            const std::int64_t first = column * config.patch.width;
            for (std::int64_t x = first; x < first + config.patch.width; ++x) *to++ = pixels[x * pictures.stride(2)];
          }
        }
      }
    });
  };
  visit_f32_f64(pictures.dtype(), run);
  return patches;
}

}  // namespace

PatchEmbedding::PatchEmbedding(const PatchEmbeddingConfig& config, Weights& weights, const std::string& scope)
    : config_(checked(config)),
      projection_({.in = config.channels * config.patch.height * config.patch.width, .out = config.dim}, weights,
                  scope + "projection.") {
  class_token_.value = weights.take(scope + kClassToken, {config.dim});
  positions_.value = weights.take(scope + kPositions, {1 + config.grid.height * config.grid.width, config.dim});
}

PictureSize PatchEmbedding::grid_of(const PictureSize& pixels) const {
  const PictureSize grid{pixels.height / config_.patch.height, pixels.width / config_.patch.width};
  refuse_unless(grid.height > 0 && grid.width > 0, "patch_embedding",
                "a picture of {} x {} pixels (height x width) is smaller than a patch of {} x {}", pixels.height,
                pixels.width, config_.patch.height, config_.patch.width);
  return grid;
}

PictureSize PatchEmbedding::check(const TensorView& pictures) const {
  const Dtype dtype = positions_.value.dtype();
  refuse_unless(pictures.rank() == 4 && pictures.size(3) == config_.channels && pictures.dtype() == dtype,
                "patch_embedding", "pictures are {} {}; they must be {} [batch, height, width, {}]",
                name_of(pictures.dtype()), to_string(pictures.shape()), name_of(dtype), config_.channels);
  return grid_of({pictures.size(1), pictures.size(2)});
}

Tensor PatchEmbedding::forward(const TensorView& pictures, int threads) const {
  const PictureSize grid = check(pictures);
  const Tensor projected = projection_.forward(gather_patches(pictures, config_, grid, threads), threads);
  const auto shares = position_shares(config_.grid, grid);
  const std::int64_t batch = pictures.size(0), tokens = std::ssize(shares), dim = config_.dim;
  Tensor out = Tensor::uninitialized({batch, tokens, dim}, pictures.dtype());
  const auto run = [&]<class T>(T) {
    parallel_for(tokens, threads, [&](std::int64_t token, int) {
      std::vector<double> position(static_cast<std::size_t>(dim));
      for (const PositionShare& share : shares[static_cast<std::size_t>(token)]) {
        const T* learnt = positions_.value.data<T>() + share.position * dim;
        for (std::int64_t e = 0; e < dim; ++e) position[e] += share.weight * static_cast<double>(learnt[e]);
      }
      for (std::int64_t b = 0; b < batch; ++b) {
        const T* from =
            token == 0 ? class_token_.value.data<T>() : projected.data<T>() + (b * (tokens - 1) + token - 1) * dim;
        T* to = out.data<T>() + (b * tokens + token) * dim;
        for (std::int64_t e = 0; e < dim; ++e) to[e] = from[e] + static_cast<T>(position[e]);
      }
    });
  };
  visit_f32_f64(out.dtype(), run);
  return out;
}

void PatchEmbedding::backward(const TensorView& pictures, const TensorView& grad_out, int threads) {
  const PictureSize grid = check(pictures);
  const auto shares = position_shares(config_.grid, grid);
  const std::int64_t batch = pictures.size(0), tokens = std::ssize(shares), dim = config_.dim;
  refuse_unless(grad_out.shape() == Dims{batch, tokens, dim} && grad_out.dtype() == pictures.dtype(), "patch_embedding",
                "the gradient is {} {}; it must be {} [{}, {}, {}]", name_of(grad_out.dtype()),
                to_string(grad_out.shape()), name_of(pictures.dtype()), batch, tokens, dim);
  const Tensor gradient = Tensor::copy(grad_out);
  const auto run = [&]<class T>(T) {
    std::vector<double> sum(static_cast<std::size_t>(dim));
    for (std::int64_t token = 0; token < tokens; ++token) {
      std::ranges::fill(sum, 0.0);
      for (std::int64_t b = 0; b < batch; ++b) {
        const T* from = gradient.data<T>() + (b * tokens + token) * dim;
        for (std::int64_t e = 0; e < dim; ++e) sum[e] += static_cast<double>(from[e]);
      }
      const auto add = [&](Parameter& parameter, std::int64_t row, double weight) {
        if (!parameter.has_gradient()) return;
        T* to = parameter.gradient.data<T>() + row * dim;
        for (std::int64_t e = 0; e < dim; ++e) to[e] += static_cast<T>(weight * sum[e]);
      };
      if (token == 0) add(class_token_, 0, 1);
      for (const PositionShare& share : shares[static_cast<std::size_t>(token)]) {
        add(positions_, share.position, share.weight);
      }
    }
  };
  visit_f32_f64(gradient.dtype(), run);
  const Tensor of_patches = Tensor::copy(gradient.view().slice(1, 1, tokens));
  projection_.backward(gather_patches(pictures, config_, grid, threads),
                       of_patches.view().reshape({batch * (tokens - 1), dim}), {}, threads);
}

void PatchEmbedding::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(projection_, scope + "projection.");
  walk(class_token_, scope + kClassToken);
  walk(positions_, scope + kPositions);
}

}  // namespace qkv
