// cross_entropy(): projects hidden states to classes in parts, and adds up loss and gradients.
#include "qkv/layers/cross_entropy.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows whose logits exist together: 8 MB of them at a vocabulary of 8,000, and enough for the products to be fast.
constexpr std::int64_t kChunkRows = 256;
// Rows of a task: some ten microseconds at 8,000 classes.
constexpr std::int64_t kTaskRows = 4;

void check_like(const char* name, const TensorView& view, const Dims& shape, Dtype dtype) {
  if (view.shape() == shape && view.dtype() == dtype) return;
  refuse("cross_entropy", "{} is {} {}; it must be {} {}", name, name_of(view.dtype()), to_string(view.shape()),
         name_of(dtype), to_string(shape));
}

void check(const ClassWeights& classes, const TensorView& hidden, std::span<const std::int32_t> labels,
           const CrossEntropyOptions& options, const CrossEntropyGradients& gradients) {
  const Dtype dtype = classes.weight.dtype();
  if (classes.weight.rank() != 2 || (dtype != Dtype::f32 && dtype != Dtype::f64)) {
    refuse("cross_entropy", "weight is {} {}; it must be f32 or f64 [classes, dim]", name_of(dtype),
           to_string(classes.weight.shape()));
  }
  const std::int64_t count = classes.weight.size(0), dim = classes.weight.size(1);
  const Dims rows{static_cast<std::int64_t>(labels.size()), dim};
  check_like("hidden", hidden, rows, dtype);
  if (classes.bias) check_like("bias", classes.bias, {count}, dtype);
  if (const PackedMatrix* packed = classes.projection;
      packed != nullptr && (packed->rows() != dim || packed->columns() != count || packed->dtype() != dtype ||
                            packed->storage() != WeightStorage::full)) {
    refuse("cross_entropy", "projection is {} [{}, {}]; it must be weight^T, {} [{}, {}] in full storage",
           name_of(packed->dtype()), packed->rows(), packed->columns(), name_of(dtype), dim, count);
  }
  if (gradients.hidden) check_like("the gradient of hidden", gradients.hidden, rows, dtype);
  if (gradients.weight) check_like("the gradient of weight", gradients.weight, classes.weight.shape(), dtype);
  if (gradients.bias) check_like("the gradient of bias", gradients.bias, {count}, dtype);
  if (!(options.smoothing >= 0 && options.smoothing <= 1)) {
    refuse("cross_entropy", "smoothing is {}; it must be 0 to 1", options.smoothing);
  }
  if (options.excluded && (*options.excluded < 0 || *options.excluded >= count || count < 2)) {
    refuse("cross_entropy", "the excluded class is {}; it must be one of {}, of which one is left", *options.excluded,
           count);
  }
  for (const std::int32_t label : labels) {
    if (label >= count || (label >= 0 && label == options.excluded)) {
      refuse("cross_entropy", "label {} is not one of the {} classes, or is excluded", label, count);
    }
  }
}

}  // namespace

LossSum cross_entropy(const ClassWeights& classes, const TensorView& hidden, std::span<const std::int32_t> labels,
                      const CrossEntropyOptions& options, const CrossEntropyGradients& gradients) {
  check(classes, hidden, labels, options, gradients);
  const int threads = options.threads;
  const bool backward = gradients.hidden || gradients.weight || gradients.bias;
  const PackedMatrix own =
      classes.projection == nullptr ? PackedMatrix(classes.weight.transpose(0, 1), threads) : PackedMatrix();
  const PackedMatrix& projection = classes.projection == nullptr ? own : *classes.projection;
  const PackedMatrix back = gradients.hidden ? PackedMatrix(classes.weight, threads) : PackedMatrix();
  const std::int64_t n = hidden.size(0), count = classes.weight.size(0);
  std::vector<double> loss(labels.size()), nll(labels.size());
  Tensor storage = Tensor::uninitialized({std::min(n, kChunkRows), count}, hidden.dtype());

  for (std::int64_t begin = 0; begin < n; begin += kChunkRows) {
    const std::int64_t end = std::min(begin + kChunkRows, n);
    const TensorView rows = hidden.slice(0, begin, end);
    const MutableTensorView logits = storage.view().slice(0, 0, end - begin);
    matmul(rows, projection, logits, {.bias = classes.bias, .threads = threads});
    const auto losses = [&]<class T>(T) {
      parallel_for(divide_up(end - begin, kTaskRows), threads, [&](std::int64_t task, int) {
        const std::int64_t first = task * kTaskRows;
        cross_entropy_rows({.logits = logits.data<T>() + first * count,
                            .stride = count,
                            .rows = std::min(kTaskRows, end - begin - first),
                            .classes = count,
                            .targets = labels.data() + begin + first,
                            .excluded = options.excluded.value_or(-1),
                            .smoothing = options.smoothing,
                            .scale = gradients.scale,
                            .gradients = backward,
                            .loss = loss.data() + begin + first,
                            .nll = nll.data() + begin + first});
      });
    };
    visit_f32_f64(hidden.dtype(), losses);
    if (gradients.hidden) {
      matmul(logits, back, gradients.hidden.slice(0, begin, end), {.accumulate = true, .threads = threads});
    }
    PackedRows inputs(rows);
    affine_backward(inputs, classes.weight, logits, {.weight = gradients.weight, .bias = gradients.bias}, threads);
  }

  LossSum sum;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    sum.sum += options.smoothing > 0 ? loss[i] : nll[i];
    sum.nll += nll[i];
    sum.count += labels[i] >= 0 ? 1 : 0;
  }
  return sum;
}

}  // namespace qkv
