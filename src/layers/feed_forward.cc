#include "qkv/feed_forward.h"

#include <algorithm>

#include "kernels/activation.h"
#include "layers/rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows that pass through both products together: the wide intermediate of so many stays in the second-level cache.
constexpr std::int64_t kBlockRows = 128;
// Some ten microseconds of activation.
constexpr std::int64_t kTaskElements = 1 << 15;

void activate_all(Activation activation, Tensor& x, int threads) {
  const auto run = [&]<class T>(T) {
    const std::int64_t count = x.element_count();
    parallel_for((count + kTaskElements - 1) / kTaskElements, threads, [&](std::int64_t task, int) {
      const std::int64_t begin = task * kTaskElements;
      activate(activation, x.data<T>() + begin, std::min(kTaskElements, count - begin));
    });
  };
  x.dtype() == Dtype::f64 ? run(double{}) : run(float{});
}

}  // namespace

FeedForward::FeedForward(const FeedForwardConfig& config, Weights& weights, const std::string& scope)
    : config_(config),
      first_({.in = config.model_dim, .out = config.ff_dim, .bias = config.bias}, weights, scope + "linear1."),
      second_({.in = config.ff_dim, .out = config.model_dim, .bias = config.bias}, weights, scope + "linear2.") {}

Tensor FeedForward::forward(const TensorView& x, int threads) const {
  const Rows rows("feed_forward", x, config_.model_dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const MutableTensorView out_rows = out.view().reshape({rows.count(), config_.model_dim});
  // Many blocks are shared out whole; within a single one the products are.
  parallel_for((rows.count() + kBlockRows - 1) / kBlockRows, threads, [&](std::int64_t block, int) {
    const std::int64_t begin = block * kBlockRows, end = std::min(begin + kBlockRows, rows.count());
    Tensor wide = first_.forward(rows.view().slice(0, begin, end), threads);
    activate_all(config_.activation, wide, threads);
    second_.forward(wide, out_rows.slice(0, begin, end), threads);
  });
  return out;
}

void FeedForward::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  first_.visit(visitor, scope + "linear1.");
  second_.visit(visitor, scope + "linear2.");
}

void FeedForward::update(const ParameterUpdater& updater, const std::string& scope) {
  first_.update(updater, scope + "linear1.");
  second_.update(updater, scope + "linear2.");
}

}  // namespace qkv
