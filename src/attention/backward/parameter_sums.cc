// Adds up the gradients of tables, slopes and sinks in a fixed order.
#include "attention/backward/parameter_sums.h"

#include <algorithm>

#include "attention/call/view_checks.h"
#include "core/visit_dtype.h"

namespace qkv::inline attending {
namespace {

// Of a gradient that may be missing.
void check(const AttentionCall& call, std::string_view name, const TensorView& gradient, const Dims& shape) {
  if (!gradient) return;
  require_shape(name, gradient, shape);
  require_distinct(name, gradient);
  if (gradient.dtype() != call.accumulation && gradient.dtype() != Dtype::f64) {
    fail("{} is {}; it must be {} or f64", name, name_of(gradient.dtype()), name_of(call.accumulation));
  }
}

// A view of the vector, or not given.
template <class View>
View at(const std::vector<View>& views, std::size_t i) {
  return i < views.size() ? views[i] : View();
}

}  // namespace

ParameterSums::ParameterSums(const AttentionCall& call, const AttentionOptions& options,
                             const AttentionGradients& gradients)
    : call_(call), options_(options), gradients_(gradients), ordered_sums_(call.heads) {
  const auto& tables = options.bias.tables();
  const auto& slopes = options.bias.alibi_slopes();
  if (gradients.tables.size() > tables.size() || gradients.alibi_slopes.size() > slopes.size()) {
    fail("gradients of {} tables and {} slopes were requested, there are {} and {}", gradients.tables.size(),
         gradients.alibi_slopes.size(), tables.size(), slopes.size());
  }
  for (std::size_t i = 0; i < gradients.tables.size(); ++i) {
    check(call, "the gradient of a table", gradients.tables[i], tables[i].values().shape());
    wanted_ = wanted_ || gradients.tables[i];
  }
  for (std::size_t i = 0; i < gradients.alibi_slopes.size(); ++i) {
    check(call, "the gradient of ALiBi slopes", gradients.alibi_slopes[i], slopes[i].shape());
    wanted_ = wanted_ || gradients.alibi_slopes[i];
  }
  if (gradients.sinks && !options.sinks) fail("the gradient of sinks was requested, but there are none");
  check(call, "the gradient of sinks", gradients.sinks, {call.heads});
  if (!wanted_ || call.batch == 0 || call.heads == 0) return;
  count_ = parameter_count(call.task(0, 0));
}

std::size_t ParameterSums::shared_bytes(std::int64_t sums) const {
  std::int64_t numbers = count_ > 0 ? call_.heads * (count_ + call_.batch) : 0;
  if (gradients_.sinks) numbers += call_.batch * call_.heads * sums;
  return static_cast<std::size_t>(numbers + call_.heads) * sizeof(double);
}

std::size_t ParameterSums::thread_bytes() const {
  return static_cast<std::size_t>(count_) * (size_of(call_.accumulation) + sizeof(double));
}

std::size_t ParameterSums::written_bytes() const {
  std::int64_t most = options_.sinks ? call_.heads : 0;
  for (const RelativeTable& table : options_.bias.tables()) most = std::max(most, table.values().element_count());
  for (const TensorView& slopes : options_.bias.alibi_slopes()) most = std::max(most, slopes.element_count());
  return static_cast<std::size_t>(most) * sizeof(double);
}

void ParameterSums::begin(int threads, std::int64_t sums) {
  if (gradients_.sinks) sinks_.resize(static_cast<std::size_t>(call_.batch * call_.heads * sums));
  if (count_ == 0) return;
  heads_.resize(static_cast<std::size_t>(call_.heads * count_));
  slopes_.resize(static_cast<std::size_t>(call_.batch * call_.heads));
  for (int worker = 0; worker < threads; ++worker) {
    shares_.push_back(Tensor::zeros({count_}, call_.accumulation));
    chunks_.emplace_back(static_cast<std::size_t>(count_));
  }
}

std::byte* ParameterSums::share(int worker) { return shares_[static_cast<std::size_t>(worker)].view().bytes(); }

void ParameterSums::finish_share(int worker) {
  const auto thread = static_cast<std::size_t>(worker);
  const auto move = [&]<class T>(T) {
    T* from = shares_[thread].data<T>();
    for (double& sum : chunks_[thread]) {
      sum += static_cast<double>(*from);
      *from++ = 0;
    }
  };
  visit_f32_f64(call_.accumulation, move);
}

void ParameterSums::finish_chunk(int worker, std::int64_t b, std::int64_t h, std::int64_t predecessors) {
  std::vector<double>& share = chunks_[static_cast<std::size_t>(worker)];
  ordered_sums_.wait_for(h, predecessors);
  double* to = heads_.data() + h * count_;
  for (double& sum : share) *to++ += sum;
  slopes_[static_cast<std::size_t>(b * call_.heads + h)] += share.back();
  ordered_sums_.finish(h);
  std::fill(share.begin(), share.end(), 0.0);
}

double* ParameterSums::sink_sums(std::int64_t b, std::int64_t h, std::int64_t sum) {
  if (sinks_.empty()) return nullptr;
  const std::size_t sums = sinks_.size() / static_cast<std::size_t>(call_.batch * call_.heads);
  return &sinks_[static_cast<std::size_t>(b * call_.heads + h) * sums + static_cast<std::size_t>(sum)];
}

void ParameterSums::write() const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < options_.bias.tables().size(); ++i) {
    const RelativeTable& table = options_.bias.tables()[i];
    const MutableTensorView to = at(gradients_.tables, i);
    Tensor sums = Tensor::zeros(table.values().shape(), Dtype::f64);
    const TableBias bias = heads_.empty() ? TableBias{} : call_.task(0, 0).tables[i];
    for (std::int64_t h = 0; to && !heads_.empty() && h < call_.heads; ++h) {
      const double* of_head = heads_.data() + h * count_ + first;
      if (table.kind() == RelativeTable::Kind::shaw) {
        add_rows(bias, of_head, sums);
        continue;
      }
      for (std::int64_t number = 0; number < bias.numbers; ++number) {
        sums.view().at<double>({row_of_number(table, bias, number), h}) += of_head[number];
      }
    }
    if (to) convert(sums, to);
    first += bias.numbers;
  }
  write_slopes();
  if (gradients_.sinks) write_sinks();
}

// Rows by distance back, times the scale, to rows by bucket.
void ParameterSums::add_rows(const TableBias& bias, const double* from, Tensor& sums) const {
  const double scale = call_.common().scale;
  const std::int64_t outside = sums.size(0) / 2 - bias.reach;  // rows that no pair has, on either side
  for (std::int64_t row = 0; row <= 2 * bias.reach; ++row) {
    double* to = sums.data<double>() + (sums.size(0) - 1 - outside - row) * sums.size(1);
    for (std::int64_t e = 0; e < sums.size(1); ++e) to[e] += scale * from[row * bias.row_length + e];
  }
}

void ParameterSums::write_slopes() const {
  for (std::size_t i = 0; i < gradients_.alibi_slopes.size(); ++i) {
    const MutableTensorView to = gradients_.alibi_slopes[i];
    if (!to) continue;
    Tensor sums = Tensor::zeros(to.shape(), Dtype::f64);
    const TensorView all = broadcast("slopes", sums, concatenate(call_.mask_batch(), {call_.heads}));
    for (std::size_t head = 0; head < slopes_.size(); ++head) {
      const auto index = static_cast<std::int64_t>(head);
      const std::byte* sum = head_address(all, call_.mask_batch(), index / call_.heads, index % call_.heads);
      *reinterpret_cast<double*>(writable(sum)) += slopes_[head];
    }
    convert(sums, to);
  }
}

void ParameterSums::write_sinks() const {
  Tensor sums = Tensor::zeros({call_.heads}, Dtype::f64);
  const auto heads = static_cast<std::size_t>(call_.heads);
  const std::size_t all = static_cast<std::size_t>(call_.batch) * heads;
  const std::size_t of_head = all == 0 ? 0 : sinks_.size() / all;
  for (std::size_t i = 0; i < sinks_.size(); ++i) sums.data<double>()[i / of_head % heads] += sinks_[i];
  convert(sums, gradients_.sinks);
}

}  // namespace qkv::inline attending
