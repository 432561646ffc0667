// Prepares the gradients of bias views, and adds up what tasks contribute to them.
#include "attention/backward/bias_gradients.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "attention/call/view_checks.h"

namespace qkv::inline attending {
namespace {

bool sums_queries(const TensorView& view) { return view.stride(-2) == 0; }
bool sums_keys(const TensorView& view) { return view.stride(-1) == 0; }

template <class T>
void add(const std::byte* sums, std::int64_t count, std::int64_t step, std::byte* to) {
  for (std::int64_t j = 0; j < count; ++j) reinterpret_cast<T*>(to)[j * step] += reinterpret_cast<const T*>(sums)[j];
}

}  // namespace

BiasGradients::BiasGradients(const AttentionCall& call, const Bias& bias,
                             const std::vector<MutableTensorView>& gradients)
    : call_(call) {
  if (gradients.size() > bias.views().size()) {
    fail("{} gradients of bias views were requested, there are {} views", gradients.size(), bias.views().size());
  }
  const char* name = "the gradient of a bias";
  const Dims whole = concatenate(call.mask_batch(), {call.heads, call.q_len, call.k_len});
  given_.reserve(gradients.size());
  views_.reserve(gradients.size());
  for (std::size_t n = 0; n < gradients.size(); ++n) {
    const MutableTensorView& gradient = gradients[n];
    if (!gradient) continue;
    require_shape(name, gradient, bias.views()[n].shape());
    if (gradient.dtype() != call.accumulation) {
      fail("{} is {}; it must be {}", name, name_of(gradient.dtype()), name_of(call.accumulation));
    }
    require_distinct(name, gradient);
    given_.push_back(gradient);
    views_.push_back(broadcast(name, gradient, whole));
  }
}

void BiasGradients::clear() const {
  for (const MutableTensorView& gradient : given_) qkv::clear(gradient);
}

std::size_t BiasGradients::tasks_and_members(std::int64_t chunks) const {
  return static_cast<std::size_t>(call_.batch * call_.heads * chunks);
}

std::size_t BiasGradients::ordered_sum_bytes(std::int64_t blocks, std::int64_t chunks) const {
  std::size_t planes = 0;  // that have ordered_sums of their own
  for (const TensorView& view : views_) {
    std::int64_t count = sums_keys(view) ? 1 : chunks;
    for (int dim = 0; dim < view.rank() - 2; ++dim) count *= view.stride(dim) == 0 ? 1 : view.size(dim);
    planes += static_cast<std::size_t>(count);
  }
  constexpr std::size_t kNode = sizeof(std::pair<const std::pair<const std::byte*, std::int64_t>, Share>);
  return tasks_and_members(chunks) * views_.size() * sizeof(Share) + planes * (kNode + 4 * sizeof(void*)) +
         planes * static_cast<std::size_t>(std::max<std::int64_t>(blocks, 1)) * sizeof(std::int64_t);
}

// Walks through the tasks once, and tells each how many add to the same elements before it. Different chunks of keys
// add to different elements, unless the view broadcasts along keys.
void BiasGradients::begin(std::int64_t blocks, std::int64_t chunks) {
  const std::int64_t group = views_.empty() ? 0 : call_.heads / call_.kv_heads;
  share_of_.reserve(tasks_and_members(chunks) * views_.size());
  std::map<std::pair<const std::byte*, std::int64_t>, Share> next;
  std::int64_t sites = 0;
  for (std::int64_t task = 0; task < call_.batch * call_.kv_heads * chunks; ++task) {
    const std::int64_t chunk = task % chunks, kv_head = task / chunks;  // of all sequences
    for (std::int64_t member = 0; member < group; ++member) {
      const std::int64_t b = kv_head / call_.kv_heads, h = kv_head % call_.kv_heads * group + member;
      for (const TensorView& view : views_) {
        const std::pair key{head_address(view, call_.mask_batch(), b, h), sums_keys(view) ? 0 : chunk};
        const auto [share, is_new] = next.try_emplace(key, Share{sites, 0});
        if (is_new) sites += std::max<std::int64_t>(blocks, 1);  // a view that sums queries has one, even of none
        share_of_.push_back(share->second);
        ++share->second.predecessors;
      }
    }
  }
  ordered_sums_.emplace(sites);
}

std::size_t BiasGradients::sum_bytes() const { return views_.size() * kChunkKeys * size_of(call_.accumulation); }

const BiasGradients::Share& BiasGradients::share(const Head& head, std::size_t n) const {
  const auto group = static_cast<std::size_t>(call_.heads / call_.kv_heads);
  return share_of_[(static_cast<std::size_t>(head.task) * group + static_cast<std::size_t>(head.member)) *
                       views_.size() +
                   n];
}

// The elements of the view that the head adds to, from the chunk's first key on.
Plane BiasGradients::plane(const Head& head, std::size_t n) const {
  const TensorView& view = views_[n];
  const auto element = static_cast<std::int64_t>(size_of(call_.accumulation));
  return {head_address(view, call_.mask_batch(), head.sequence, head.head) + head.chunk * view.stride(-1) * element,
          view.stride(-2), view.stride(-1)};
}

void BiasGradients::begin_head(const Head& head) const { std::memset(head.sums, 0, sum_bytes()); }

void BiasGradients::begin_block(const Head& head, std::int64_t block, BackwardTask& task) const {
  task.bias_count = static_cast<int>(views_.size());
  for (std::size_t n = 0; n < views_.size(); ++n) {
    if (sums_queries(views_[n])) {
      const std::byte* sums = head.sums + n * kChunkKeys * size_of(call_.accumulation);
      task.bias_gradients[n] = {sums, 0, sums_keys(views_[n]) ? 0 : 1};
    } else {
      ordered_sums_->wait_for(share(head, n).site + block, share(head, n).predecessors);
      task.bias_gradients[n] = plane(head, n);
    }
  }
}

void BiasGradients::end_block(const Head& head, std::int64_t block) {
  for (std::size_t n = 0; n < views_.size(); ++n) {
    if (!sums_queries(views_[n])) ordered_sums_->finish(share(head, n).site + block);
  }
}

void BiasGradients::end_head(const Head& head) {
  for (std::size_t n = 0; n < views_.size(); ++n) {
    if (!sums_queries(views_[n])) continue;
    ordered_sums_->wait_for(share(head, n).site, share(head, n).predecessors);
    const Plane to = plane(head, n);
    const std::byte* sums = head.sums + n * kChunkKeys * size_of(call_.accumulation);
    const std::int64_t count = sums_keys(views_[n]) ? 1 : head.keys;
    call_.accumulation == Dtype::f64 ? add<double>(sums, count, to.key_step, writable(to.data))
                                     : add<float>(sums, count, to.key_step, writable(to.data));
    ordered_sums_->finish(share(head, n).site);
  }
}

}  // namespace qkv::inline attending
