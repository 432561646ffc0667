// Runs the decoder over whole target sides, where attention comes after the steps, or step by step, where it comes
// before.
#include "lab/models/recurrent_decoder.h"

#include <algorithm>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/rows.h"
#include "layers/basic/scoped_observer.h"

namespace qkv::inline models {
namespace {

using Numbers = std::vector<std::int64_t>;

// Sites of dropout: what is read out, the layers of a run, and those of each step.
enum Site : std::uint32_t { kRead, kRun, kSteps };

constexpr std::optional<Score::Kind> score_of(RecurrentAttentionKind kind) {
  if (kind == RecurrentAttentionKind::fixed) return {};
  if (kind == RecurrentAttentionKind::additive) return Score::Kind::additive;
  return kind == RecurrentAttentionKind::dot ? Score::Kind::dot : Score::Kind::bilinear;
}

// Calls f(to, from) for each of so many rows of the same size.
template <class Function>
void for_rows(const TensorView& from, const MutableTensorView& to, std::int64_t count, const Function& f) {
  visit_f32_f64(to.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < count; ++i) f(i, from.data<T>(), to.data<T>(), to.size(1));
  });
}

// Those rows of `from`, one below the other.
void take_rows(const TensorView& from, const Numbers& chosen, const MutableTensorView& to) {
  for_rows(from, to, std::ssize(chosen), [&](std::int64_t i, const auto* source, auto* rows, std::int64_t size) {
    std::copy_n(source + chosen[static_cast<std::size_t>(i)] * from.stride(0), size, rows + i * to.stride(0));
  });
}

Tensor take_rows(const TensorView& from, const Numbers& chosen) {
  Tensor rows = Tensor::uninitialized({std::ssize(chosen), from.size(1)}, from.dtype());
  take_rows(from, chosen, rows);
  return rows;
}

void put_rows(const TensorView& from, const Numbers& chosen, const MutableTensorView& to) {
  for_rows(from, to, std::ssize(chosen), [&](std::int64_t i, const auto* source, auto* rows, std::int64_t size) {
    std::copy_n(source + i * from.stride(0), size, rows + chosen[static_cast<std::size_t>(i)] * to.stride(0));
  });
}

void add_rows(const TensorView& from, const Numbers& chosen, const MutableTensorView& to) {
  for_rows(from, to, std::ssize(chosen), [&](std::int64_t i, const auto* source, auto* rows, std::int64_t size) {
    const auto* row = source + i * from.stride(0);
    auto* sum = rows + chosen[static_cast<std::size_t>(i)] * to.stride(0);
    for (std::int64_t e = 0; e < size; ++e) sum[e] += row[e];
  });
}

Tensor side_by_side(const TensorView& left, const TensorView& right) {
  Tensor both = Tensor::uninitialized({left.size(0), left.size(1) + right.size(1)}, left.dtype());
  convert(left, both.view().slice(1, 0, left.size(1)));
  convert(right, both.view().slice(1, left.size(1), both.size(1)));
  return both;
}

RecurrentStates<Tensor> zeros_like(const RecurrentStates<Tensor>& states) {
  return {.hidden = Tensor::zeros(states.hidden.shape(), states.hidden.dtype()),
          .cell = Tensor::zeros(states.cell.shape(), states.cell.dtype())};
}

// The sequences that have a token t, where in the rows it is, and offsets that give each of them one row.
struct Turn {
  Turn(const TensorView& all, std::int64_t t) {
    Numbers lengths;
    for (std::int64_t b = 0; b + 1 < all.size(0); ++b) {
      const std::int64_t begin = all.at<std::int32_t>({b}), length = all.at<std::int32_t>({b + 1}) - begin;
      lengths.push_back(t < length ? 1 : 0);
      if (t >= length) continue;
      sequences.push_back(b);
      tokens.push_back(begin + t);
    }
    offsets = offsets_of(lengths);
  }

  Numbers sequences, tokens;
  Tensor offsets;
};

}  // namespace

RecurrentDecoder::RecurrentDecoder(const RecurrentEncoderDecoderConfig& config, Weights& weights)
    : config_(config),
      recurrent_({.cell = config.cell,
                  .in = attends_first() ? 2 * config.model_dim : config.model_dim,
                  .hidden = config.model_dim,
                  .layers = config.layers},
                 weights, "decoder.rnn.") {
  const auto score = score_of(config.kind);
  if (!score) return;
  attention_.emplace(ScoredAttentionConfig{.score = *score, .dim = config.model_dim}, weights, "attention.");
  readout_.emplace(LinearConfig{.in = 2 * config.model_dim, .out = config.model_dim}, weights, "readout.");
}

RecurrentStates<TensorView> RecurrentDecoder::views(const RecurrentStates<Tensor>& states) const {
  return {.hidden = states.hidden, .cell = config_.cell == RecurrentCell::lstm ? states.cell.view() : TensorView()};
}

Tensor RecurrentDecoder::top(const RecurrentStates<Tensor>& states, const Numbers& sequences) const {
  return take_rows(states.hidden.view().select(0, config_.layers - 1), sequences);
}

Tensor RecurrentDecoder::read_out(const Tensor& joined, int threads) const {
  Tensor read = readout_->forward(joined, threads);
  visit_f32_f64(read.dtype(), [&]<class T>(T) {
    T* data = read.data<T>();
    std::transform(data, data + read.element_count(), data, [](T x) { return static_cast<T>(tanh(x)); });
  });
  return read;
}

Tensor RecurrentDecoder::run_steps(const Sequences& target, const RecurrentMemory& memory, const Dropout& dropout,
                                   Saved& saved, int threads) const {
  const Sequences keys(memory.rows, memory.offsets);
  saved.states = Tensor::uninitialized(target.rows.shape(), target.rows.dtype());
  Tensor contexts = Tensor::uninitialized(target.rows.shape(), target.rows.dtype());
  RecurrentStates<Tensor> states = memory.states;
  for (std::int64_t t = 0;; ++t) {
    Turn turn(target.offsets, t);
    if (turn.tokens.empty()) return contexts;
    Step& step = saved.steps.emplace_back();
    step.query = top(states, turn.sequences);
    step.offsets = std::move(turn.offsets);
    const Tensor context = attention_->forward({step.query, step.offsets}, keys, step.attention, threads, memory.mask);
    step.in = side_by_side(take_rows(target.rows, turn.tokens), context);
    step.before = std::move(states);
    RecurrentOutput run =
        recurrent_.forward({step.in, step.offsets}, views(step.before),
                           dropout_at(dropout, kSteps + static_cast<std::uint32_t>(t)), step.recurrent, threads);
    put_rows(run.out, turn.tokens, saved.states);
    put_rows(context, turn.tokens, contexts);
    states = std::move(run.states);
  }
}

Tensor RecurrentDecoder::forward(const Sequences& target, const RecurrentMemory& memory, const Dropout& dropout,
                                 Saved& saved, int threads, Observer* observer) const {
  Tensor contexts;
  if (attends_first()) {
    contexts = run_steps(target, memory, dropout, saved, threads);
  } else {
    saved.states = std::move(
        recurrent_.forward(target, views(memory.states), dropout_at(dropout, kRun), saved.recurrent, threads).out);
    if (attention_) {
      contexts = attention_->forward({saved.states, target.offsets}, {memory.rows, memory.offsets}, saved.attention,
                                     threads, memory.mask);
    }
  }
  if (observer != nullptr && attention_) observe(target, memory, saved, threads, *observer);
  Tensor out = saved.states;
  if (readout_) {
    saved.joined = side_by_side(saved.states, contexts);
    saved.read = read_out(saved.joined, threads);
    out = saved.read;
  }
  drop(dropout_at(dropout, kRead), out, out, threads);
  return out;
}

// All queries in one call: each of them gets the bits that it got step by step.
void RecurrentDecoder::observe(const Sequences& target, const RecurrentMemory& memory, const Saved& saved, int threads,
                               Observer& observer) const {
  Tensor queries = saved.states;
  for (std::size_t t = 0; t < saved.steps.size(); ++t) {
    put_rows(saved.steps[t].query, Turn(target.offsets, static_cast<std::int64_t>(t)).tokens, queries);
  }
  ScopedObserver scoped(observer, "decoder.attention.0.");
  attention_->forward({queries, target.offsets}, {memory.rows, memory.offsets}, threads, &scoped, memory.mask);
}

RecurrentStates<Tensor> RecurrentDecoder::run_steps_backward(const Sequences& target, const RecurrentMemory& memory,
                                                             const Dropout& dropout, const Saved& saved,
                                                             const TensorView& grad_states, Tensor& grad_context,
                                                             Gradients& to) {
  const std::int64_t dim = config_.model_dim;
  RecurrentStates<Tensor> grad = zeros_like(memory.states);
  for (std::size_t t = saved.steps.size(); t-- > 0;) {
    const Step& step = saved.steps[t];
    const Turn turn(target.offsets, static_cast<std::int64_t>(t));
    RecurrentStates<Tensor> grad_before = zeros_like(memory.states);
    Tensor grad_in = Tensor::zeros(step.in.shape(), step.in.dtype());
    const Tensor grad_out = take_rows(grad_states, turn.tokens);
    const bool has_cell = config_.cell == RecurrentCell::lstm;
    recurrent_.backward(
        {step.in, step.offsets}, views(step.before), dropout_at(dropout, kSteps + static_cast<std::uint32_t>(t)),
        step.recurrent, {.out = grad_out, .states = views(grad)},
        {.x = grad_in,
         .initial = {.hidden = grad_before.hidden, .cell = has_cell ? grad_before.cell.view() : MutableTensorView()}});
    add_rows(grad_in.view().slice(1, 0, dim), turn.tokens, to.target);
    Tensor grad_own = take_rows(grad_context, turn.tokens);
    add_to(grad_own, Tensor::copy(grad_in.view().slice(1, dim, 2 * dim)), 0);
    put_rows(grad_own, turn.tokens, grad_context);
    Tensor grad_query = Tensor::zeros(step.query.shape(), step.query.dtype());
    attention_->backward({step.query, step.offsets}, {memory.rows, memory.offsets}, step.attention, grad_own,
                         grad_query, to.memory);
    add_rows(grad_query, turn.sequences, grad_before.hidden.view().select(0, config_.layers - 1));
    grad = std::move(grad_before);
  }
  return grad;
}

RecurrentDecoder::Gradients RecurrentDecoder::backward(const Sequences& target, const RecurrentMemory& memory,
                                                       const Dropout& dropout, const Saved& saved, Tensor& grad_out,
                                                       Observer* observer) {
  const std::int64_t dim = config_.model_dim;
  Gradients to{.target = Tensor::zeros(target.rows.shape(), grad_out.dtype()),
               .memory = Tensor::zeros(memory.rows.shape(), grad_out.dtype())};
  drop(dropout_at(dropout, kRead), grad_out, grad_out, 0);
  Tensor grad_context;
  if (readout_) {
    visit_f32_f64(grad_out.dtype(), [&]<class T>(T) {
      const T* read = saved.read.data<T>();
      T* grad = grad_out.data<T>();
      for (std::int64_t i = 0; i < grad_out.element_count(); ++i) grad[i] *= 1 - read[i] * read[i];
    });
    Tensor grad_joined = Tensor::zeros(saved.joined.shape(), grad_out.dtype());
    readout_->backward(saved.joined, grad_out, grad_joined);
    grad_out = Tensor::copy(grad_joined.view().slice(1, 0, dim));
    grad_context = Tensor::copy(grad_joined.view().slice(1, dim, 2 * dim));
  }
  const auto receive_context = [&] {
    if (observer == nullptr || !attention_) return;
    observer->receive("decoder.attention.0.heads_gradient",
                      grad_context.view().reshape({grad_context.size(0), 1, dim}));
  };
  if (attends_first()) {
    to.states = run_steps_backward(target, memory, dropout, saved, grad_out, grad_context, to);
    receive_context();
    return to;
  }
  receive_context();
  if (attention_) {
    attention_->backward({saved.states, target.offsets}, {memory.rows, memory.offsets}, saved.attention, grad_context,
                         grad_out, to.memory);
  }
  to.states = zeros_like(memory.states);
  const bool has_cell = config_.cell == RecurrentCell::lstm;
  recurrent_.backward(
      target, views(memory.states), dropout_at(dropout, kRun), saved.recurrent, {.out = grad_out},
      {.x = to.target,
       .initial = {.hidden = to.states.hidden, .cell = has_cell ? to.states.cell.view() : MutableTensorView()}});
  return to;
}

Tensor RecurrentDecoder::step(const Tensor& rows, const Tensor& offsets, const RecurrentMemory& memory,
                              RecurrentStates<Tensor>& states, int threads) const {
  const Sequences keys(memory.rows, memory.offsets);
  const std::int64_t count = rows.size(0), dim = config_.model_dim;
  const auto run = [&](const Tensor& in) {
    RecurrentOutput out = recurrent_.forward(in.view().reshape({count, 1, in.size(1)}), views(states), threads);
    states = std::move(out.states);
    Tensor own = Tensor::copy(out.out.view().reshape({count, dim}));
    return own;
  };
  if (!attention_) return run(rows);
  if (!attends_first()) {
    const Tensor own = run(rows);
    return read_out(side_by_side(own, attention_->forward({own, offsets}, keys, threads, nullptr, memory.mask)),
                    threads);
  }
  const Tensor query = Tensor::copy(states.hidden.view().select(0, config_.layers - 1));
  const Tensor context = attention_->forward({query, offsets}, keys, threads, nullptr, memory.mask);
  return read_out(side_by_side(run(side_by_side(rows, context)), context), threads);
}

void RecurrentDecoder::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(recurrent_, scope + "decoder.rnn.");
  walk(attention_, scope + "attention.");
  walk(readout_, scope + "readout.");
}

}  // namespace qkv::inline models
