// The gates and states of recurrent layers over vectors, forward and backward.
#include "lab/layers/recurrent_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lab/layers/recurrent_step.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/lane_sums-inl.h"
#include "simd/logistic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// body(lanes, row, token, first element) for all elements of all rows.
template <class Step, class Body>
HWY_INLINE void for_each_part(const Step& step, const Body& body) {
  using T = typename Step::Element;
  for (std::int64_t row = 0; row < step.rows; ++row) {
    std::int64_t i = 0;
    for (; i + kLanes<T> <= step.size; i += kLanes<T>) body(WholeLanes<T>(), row, step.tokens[row], i);
    if (i < step.size) body(SomeLanes<T>{step.size - i}, row, step.tokens[row], i);
  }
}

template <class T>
HWY_INLINE Vec<T> one_minus(Vec<T> x) {
  return hn::Sub(hn::Set(Tag<T>(), T(1)), x);
}
// x (1 - y^2): through tanh, whose value is y.
template <class T>
HWY_INLINE Vec<T> through_tanh(Vec<T> x, Vec<T> y) {
  return hn::Mul(x, hn::NegMulAdd(y, y, hn::Set(Tag<T>(), T(1))));
}
// x y (1 - y): through the logistic function, whose value is y.
template <class T>
HWY_INLINE Vec<T> through_logistic(Vec<T> x, Vec<T> y) {
  return hn::Mul(x, hn::Mul(y, one_minus<T>(y)));
}

template <class T, bool kRelu>
void rnn_step(const RecurrentStep<T>& s) {
  for_each_part(s, [&](auto lanes, std::int64_t row, std::int64_t token, std::int64_t i) HWY_ATTR {
    const std::int64_t at = row * s.size + i;
    const Vec<T> sum = hn::Add(lanes.load(s.gates + token * s.size + i), lanes.load(s.products + at));
    Vec<T> h;
    if constexpr (kRelu) {
      h = hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(Tag<T>())), sum);
    } else {
      h = gate_tanh<T>(sum);
    }
    lanes.store(h, s.hidden + at);
    lanes.store(h, s.out + token * s.out_stride + i);
  });
}

template <class T>
void lstm_step(const RecurrentStep<T>& s) {
  for_each_part(s, [&](auto lanes, std::int64_t row, std::int64_t token, std::int64_t i) HWY_ATTR {
    T* gates = s.gates + token * 4 * s.size + i;
    const T* products = s.products + row * 4 * s.size + i;
    const auto sum = [&](int gate) HWY_ATTR {
      return hn::Add(lanes.load(gates + gate * s.size), lanes.load(products + gate * s.size));
    };
    const Vec<T> in = Logistic<T>(sum(0)).value, forget = Logistic<T>(sum(1)).value, g = gate_tanh<T>(sum(2));
    const Vec<T> through = Logistic<T>(sum(3)).value;
    const std::int64_t at = row * s.size + i;
    const Vec<T> c = hn::MulAdd(forget, lanes.load(s.cell + at), hn::Mul(in, g));
    const Vec<T> h = hn::Mul(through, gate_tanh<T>(c));
    lanes.store(c, s.cell + at);
    lanes.store(h, s.hidden + at);
    lanes.store(h, s.out + token * s.out_stride + i);
    if (s.kept == nullptr) return;
    lanes.store(in, gates);
    lanes.store(forget, gates + s.size);
    lanes.store(g, gates + 2 * s.size);
    lanes.store(through, gates + 3 * s.size);
    lanes.store(c, s.kept + token * s.size + i);
  });
}

template <class T>
void gru_step(const RecurrentStep<T>& s) {
  for_each_part(s, [&](auto lanes, std::int64_t row, std::int64_t token, std::int64_t i) HWY_ATTR {
    T* gates = s.gates + token * 3 * s.size + i;
    const T* products = s.products + row * 3 * s.size + i;
    const Vec<T> r = Logistic<T>(hn::Add(lanes.load(gates), lanes.load(products))).value;
    const Vec<T> z = Logistic<T>(hn::Add(lanes.load(gates + s.size), lanes.load(products + s.size))).value;
    const Vec<T> product = lanes.load(products + 2 * s.size);
    const Vec<T> n = gate_tanh<T>(hn::MulAdd(r, product, lanes.load(gates + 2 * s.size)));
    const std::int64_t at = row * s.size + i;
    const Vec<T> h = hn::MulAdd(z, hn::Sub(lanes.load(s.hidden + at), n), n);  // (1 - z) n + z h
    lanes.store(h, s.hidden + at);
    lanes.store(h, s.out + token * s.out_stride + i);
    if (s.kept == nullptr) return;
    lanes.store(r, gates);
    lanes.store(z, gates + s.size);
    lanes.store(n, gates + 2 * s.size);
    lanes.store(product, s.kept + token * s.size + i);
  });
}

template <class T>
void step_any(RecurrentCell cell, const RecurrentStep<T>& s) {
  switch (cell) {
    case RecurrentCell::rnn_tanh:
      return rnn_step<T, false>(s);
    case RecurrentCell::rnn_relu:
      return rnn_step<T, true>(s);
    case RecurrentCell::lstm:
      return lstm_step(s);
    case RecurrentCell::gru:
      return gru_step(s);
  }
}

// The whole gradient at h'.
template <class T, class Lanes>
HWY_INLINE Vec<T> gradient_at_hidden(const RecurrentStepBack<T>& s, Lanes lanes, std::int64_t row, std::int64_t token,
                                     std::int64_t i) {
  return hn::Add(lanes.load(s.grad_hidden + row * s.size + i), lanes.load(s.grad_out + token * s.grad_out_stride + i));
}

template <class T, bool kRelu>
void rnn_back(const RecurrentStepBack<T>& s) {
  for_each_part(s, [&](auto lanes, std::int64_t row, std::int64_t token, std::int64_t i) HWY_ATTR {
    const Vec<T> gradient = gradient_at_hidden<T>(s, lanes, row, token, i);
    const Vec<T> h = lanes.load(s.out + token * s.out_stride + i);
    Vec<T> sum;
    if constexpr (kRelu) {
      sum = hn::IfThenElseZero(hn::Gt(h, hn::Zero(Tag<T>())), gradient);
    } else {
      sum = through_tanh<T>(gradient, h);
    }
    lanes.store(sum, s.grad_gates + token * s.size + i);
    lanes.store(sum, s.grad_products + row * s.size + i);
  });
}

template <class T>
void lstm_back(const RecurrentStepBack<T>& s) {
  for_each_part(s, [&](auto lanes, std::int64_t row, std::int64_t token, std::int64_t i) HWY_ATTR {
    const T* gates = s.gates + token * 4 * s.size + i;
    const Vec<T> in = lanes.load(gates), forget = lanes.load(gates + s.size), g = lanes.load(gates + 2 * s.size);
    const Vec<T> through = lanes.load(gates + 3 * s.size), c = gate_tanh<T>(lanes.load(s.kept + token * s.size + i));
    const Vec<T> gradient = gradient_at_hidden<T>(s, lanes, row, token, i);
    T* grad_cell = s.grad_cell + row * s.size + i;
    const Vec<T> at_cell = hn::Add(lanes.load(grad_cell), through_tanh<T>(hn::Mul(gradient, through), c));
    lanes.store(hn::Mul(at_cell, forget), grad_cell);
    const auto put = [&](int gate, Vec<T> value) HWY_ATTR {
      lanes.store(value, s.grad_gates + (token * 4 + gate) * s.size + i);
      lanes.store(value, s.grad_products + (row * 4 + gate) * s.size + i);
    };
    put(0, through_logistic<T>(hn::Mul(at_cell, g), in));
    put(1, through_logistic<T>(hn::Mul(at_cell, lanes.load(s.previous_cell[row] + i)), forget));
    put(2, through_tanh<T>(hn::Mul(at_cell, in), g));
    put(3, through_logistic<T>(hn::Mul(gradient, c), through));
  });
}

// Through h' = n + z (h - n).
template <class T>
void gru_back(const RecurrentStepBack<T>& s) {
  for_each_part(s, [&](auto lanes, std::int64_t row, std::int64_t token, std::int64_t i) HWY_ATTR {
    const T* gates = s.gates + token * 3 * s.size + i;
    const Vec<T> r = lanes.load(gates), z = lanes.load(gates + s.size), n = lanes.load(gates + 2 * s.size);
    const Vec<T> product = lanes.load(s.kept + token * s.size + i);
    const Vec<T> gradient = gradient_at_hidden<T>(s, lanes, row, token, i);
    const Vec<T> at_z = through_logistic<T>(hn::Mul(gradient, hn::Sub(lanes.load(s.previous_hidden[row] + i), n)), z);
    const Vec<T> at_n = through_tanh<T>(hn::Mul(gradient, one_minus<T>(z)), n);
    const Vec<T> at_r = through_logistic<T>(hn::Mul(at_n, product), r), at_product = hn::Mul(at_n, r);
    lanes.store(hn::Mul(gradient, z), s.grad_hidden + row * s.size + i);
    T* at_token = s.grad_gates + token * 3 * s.size + i;
    lanes.store(at_r, at_token);
    lanes.store(at_z, at_token + s.size);
    lanes.store(at_n, at_token + 2 * s.size);
    lanes.store(at_product, s.grad_kept + token * s.size + i);
    T* at_row = s.grad_products + row * 3 * s.size + i;
    lanes.store(at_r, at_row);
    lanes.store(at_z, at_row + s.size);
    lanes.store(at_product, at_row + 2 * s.size);
  });
}

template <class T>
void step_back_any(RecurrentCell cell, const RecurrentStepBack<T>& s) {
  switch (cell) {
    case RecurrentCell::rnn_tanh:
      return rnn_back<T, false>(s);
    case RecurrentCell::rnn_relu:
      return rnn_back<T, true>(s);
    case RecurrentCell::lstm:
      return lstm_back(s);
    case RecurrentCell::gru:
      return gru_back(s);
  }
}

void step_f32(RecurrentCell cell, const RecurrentStep<float>& s) { step_any(cell, s); }
void step_f64(RecurrentCell cell, const RecurrentStep<double>& s) { step_any(cell, s); }
void step_back_f32(RecurrentCell cell, const RecurrentStepBack<float>& s) { step_back_any(cell, s); }
void step_back_f64(RecurrentCell cell, const RecurrentStepBack<double>& s) { step_back_any(cell, s); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(step_f32);
HWY_EXPORT(step_f64);
HWY_EXPORT(step_back_f32);
HWY_EXPORT(step_back_f64);

}  // namespace

void recurrent_step(RecurrentCell cell, const RecurrentStep<float>& step) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(step_f32)(cell, step);
}
void recurrent_step(RecurrentCell cell, const RecurrentStep<double>& step) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(step_f64)(cell, step);
}
void recurrent_step_back(RecurrentCell cell, const RecurrentStepBack<float>& step) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(step_back_f32)(cell, step);
}
void recurrent_step_back(RecurrentCell cell, const RecurrentStepBack<double>& step) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(step_back_f64)(cell, step);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
