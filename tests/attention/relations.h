// A call of attention that can be given in another form, and all that it gives: what same_bits_test.cc compares.
#pragma once

#include "attention/attention_case.h"
#include "attention/call/output_kinds.h"
#include "attention/options/mask_kinds.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::testing::relations {

// What an output has a row for: each query, also with an element for each key; each key; or none of them.
enum class Of { queries, pairs, keys, all };

struct Output {
  std::string name;
  Of of;
  TensorView values;
};

struct Outcome {
  std::vector<Output> outputs;
  Kept kept;
};

inline std::vector<std::int64_t> integers(const TensorView& view) {
  const Tensor wide = convert(view, Dtype::i64);
  return {wide.data<std::int64_t>(), wide.data<std::int64_t>() + wide.element_count()};
}

struct Call {
  explicit Call(const AttentionCase& drawn)
      : q(drawn.q), k(drawn.k), v(drawn.v), options(drawn.options), out_dtype(drawn.out_dtype) {
    Choices choices(drawn.seed);
    grad_out = kept.keep(draw_numbers(choices, shape_of_out(), out_dtype));
    drawn.unseen.put_into_queries(grad_out, kNan);
    is_finite = drawn.is_finite;
  }

  // Tangents of the inputs, and of the options what has none taken away; false where something else has none.
  bool draw_tangents(const AttentionCase& drawn) {
    const auto is_shaw = [](const RelativeTable& table) { return table.kind() == RelativeTable::Kind::shaw; };
    const Score::Kind score = options.score.kind();
    if ((score != Score::Kind::dot && score != Score::Kind::scaled_dot) || size_of(q.dtype()) < 4 || paged() ||
        std::ranges::any_of(options.bias.tables(), is_shaw)) {
      return false;
    }
    options.soft_cap = 0, options.dropout = {}, options.logit_function = {};
    Choices choices(drawn.seed + 1);
    const auto draw = [&](const TensorView& like) { return kept.keep(draw_numbers(choices, like.shape(), q.dtype())); };
    tq = draw(q), tk = draw(k), tv = draw(v);
    drawn.unseen.put_into_queries(tq, kNan);
    for (const TensorView& keys : {tk, tv}) drawn.unseen.put_into_keys(keys, kNan);
    return true;
  }

  // Puts what becomes of the arrays that are there into another call.
  using View = std::function<TensorView(const TensorView&)>;
  void give(Call& to, const View& queries, const View& keys) const {
    for (TensorView Call::* array : kOfQueries) to.*array = this->*array ? queries(this->*array) : TensorView();
    for (TensorView Call::* array : kOfKeys) to.*array = this->*array ? keys(this->*array) : TensorView();
  }

  TensorView q, k, v, grad_out, tq, tk, tv;
  static constexpr TensorView Call::* kOfQueries[] = {&Call::q, &Call::grad_out, &Call::tq};
  static constexpr TensorView Call::* kOfKeys[] = {&Call::k, &Call::v, &Call::tk, &Call::tv};
  AttentionOptions options;
  Dtype out_dtype;
  bool is_finite;              // as in AttentionCase
  Random* scatters = nullptr;  // where outputs lie, if not row by row
  Kept kept;

  bool packed() const { return static_cast<bool>(options.offsets_query); }
  bool paged() const { return static_cast<bool>(options.block_table); }
  bool has_dropout() const { return options.dropout.p > 0; }
  bool has_batch() const { return q.rank() == 4; }
  std::int64_t heads() const { return q.size(packed() ? 1 : -3); }
  std::int64_t batch() const { return packed() ? options.offsets_query.size(0) - 1 : has_batch() ? q.size(0) : 1; }
  Dtype wide() const { return q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
  Dims rows() const {
    Dims rows;
    for (int dim = 0; dim + 1 < q.rank(); ++dim) rows.push_back(q.size(dim));
    return rows;
  }
  Dims shape_of_out() const {
    Dims shape = rows();
    shape.push_back(v.size(-1));
    return shape;
  }
  std::int64_t query_length(std::int64_t b) const {
    return packed() ? length_in(options.offsets_query, b) : q.size(-2);
  }
  // Of an array of keys, before lengths cut it.
  std::int64_t most_keys(std::int64_t b) const {
    if (paged()) return options.block_table.size(1) * k.size(1);
    return packed() ? length_in(options.offsets_key, b) : k.size(-2);
  }
  std::int64_t key_length(std::int64_t b) const {
    std::int64_t length = most_keys(b);
    for (const Mask::Part& part : parts_of(options.mask, MaskKind::lengths)) {
      length = std::min(length, integers(part.arrays[0])[at(b)]);
    }
    return length;
  }
  std::int64_t longest(std::int64_t (Call::*length)(std::int64_t) const) const {
    std::int64_t longest = 0;
    for (std::int64_t b = 0; b < batch(); ++b) longest = std::max(longest, (this->*length)(b));
    return longest;
  }
  // As long as rows of weights are.
  std::int64_t longest_keys() const {
    return packed() || paged() ? longest(paged() ? &Call::key_length : &Call::most_keys) : k.size(-2);
  }

  // Rows of sequence b, [heads, length, ...].
  TensorView of_queries(const TensorView& array, std::int64_t b) const {
    return packed() ? rows_in(array, options.offsets_query, b) : has_batch() ? array.select(0, b) : array;
  }
  TensorView of_keys(const TensorView& array, std::int64_t b) const {
    const TensorView own = packed() && !paged() ? rows_in(array, options.offsets_key, b)
                           : has_batch()        ? array.select(0, b)
                                                : array;
    return own.slice(1, 0, key_length(b));
  }
  // The keys or values of sequence b, wherever they lie.
  TensorView keys_of(Kept& to, const TensorView& array, std::int64_t b) const {
    if (!paged()) return of_keys(array, b);
    Tensor own = Tensor::uninitialized({array.size(2), key_length(b), array.size(3)}, array.dtype());
    for (std::int64_t j = 0; j < key_length(b); ++j) {
      const auto page = options.block_table.at<std::int32_t>({b, j / array.size(1)});
      convert(array.select(0, page).select(0, j % array.size(1)), own.view().select(1, j));
    }
    return to.keep(std::move(own));
  }

 private:
  static std::size_t at(std::int64_t b) { return static_cast<std::size_t>(b); }
  static std::int64_t length_in(const TensorView& offsets, std::int64_t b) {
    return integers(offsets)[at(b) + 1] - integers(offsets)[at(b)];
  }
  static TensorView rows_in(const TensorView& array, const TensorView& offsets, std::int64_t b) {
    return array.slice(0, integers(offsets)[at(b)], integers(offsets)[at(b) + 1]).transpose(0, 1);
  }
};

// A place for an output, with NaN, or 77, in it.
inline MutableTensorView place(Outcome& outcome, const Call& call, const std::string& name, Of of, const Dims& shape,
                               Dtype dtype) {
  const double before = dtype == Dtype::i64 ? 77 : kNan;
  const MutableTensorView view = call.scatters != nullptr
                                     ? scattered(outcome.kept, shape, dtype, *call.scatters, /*backwards=*/false)
                                     : outcome.kept.keep(filled(shape, before, dtype));
  outcome.outputs.push_back({name, of, view});
  return view;
}

using Wants = std::function<bool(const std::string& output)>;
inline bool everything(const std::string&) { return true; }
// What keeps neither heads from sharing a block nor threads from sharing keys.
inline bool plain(const std::string& output) { return output == "log_sum_exp"; }
inline bool nothing(const std::string&) { return false; }

// The output, and what else is wanted of it.
inline Outcome attend(const Call& call, const Wants& wants = everything) {
  const auto with = [&](std::int64_t last) {
    Dims shape = call.rows();
    shape.push_back(last);
    return shape;
  };
  const std::int64_t k_len = call.longest_keys();
  Outcome outcome;
  AttentionExtras extras;
  const MutableTensorView out = place(outcome, call, "output", Of::queries, call.shape_of_out(), call.out_dtype);
  Dims keys = call.rows();
  (call.packed() ? keys[0] : keys[keys.size() - 1]) = call.packed() ? call.k.size(0) : k_len;
  const Dims blocks =
      call.packed() || call.has_batch() ? Dims{call.batch(), call.heads(), 3, 2} : Dims{call.heads(), 3, 2};
  for (const OutputDescription& kind : attention_outputs()) {
    if (kind.of == OutputOf::chosen || (kind.is_statistic && !call.is_finite)) continue;  // of NaN there are none
    if (kind.of == OutputOf::keys && call.packed() && call.paged()) continue;
    if (!wants(kind.of == OutputOf::top ? "top_keys" : kind.name)) continue;
    const auto ask = [&](Of of, const Dims& shape) {
      const Dtype dtype = kind.is_index ? Dtype::i64 : call.wide();
      extras.*kind.view = place(outcome, call, kind.name, of, shape, dtype);
    };
    if (kind.of == OutputOf::rows) ask(Of::queries, call.rows());
    if (kind.of == OutputOf::pairs) ask(Of::pairs, with(k_len));
    if (kind.of == OutputOf::top) ask(Of::queries, with(3));
    if (kind.of == OutputOf::keys) ask(Of::keys, keys);
    if (kind.of == OutputOf::blocks) ask(Of::all, blocks);
  }
  attention(call.q, call.k, call.v, out, call.options, extras);
  return outcome;
}

// The gradients that are wanted.
inline Outcome differentiate(const Call& call, const Wants& wants = everything) {
  const Outcome kept = attend(call, plain);
  Outcome outcome;
  const auto ask = [&](const char* name, Of of, const TensorView& like, Dtype dtype) {
    return like && wants(name) ? place(outcome, call, name, of, like.shape(), dtype) : MutableTensorView();
  };
  const Dtype of_inputs = call.out_dtype;  // the type of q or of the accumulation, too
  AttentionGradients places{.query = ask("gradient of queries", Of::queries, call.q, of_inputs),
                            .key = ask("gradient of keys", Of::keys, call.k, of_inputs),
                            .value = ask("gradient of values", Of::keys, call.v, of_inputs)};
  const auto ask_each = [&](std::vector<MutableTensorView>& to, const char* name, const TensorView& like) {
    to.push_back(ask(name, Of::all, like, call.wide()));
  };
  const Bias& bias = call.options.bias;
  for (const TensorView& view : bias.views()) ask_each(places.bias, "gradient of a bias", view);
  for (const RelativeTable& table : bias.tables()) ask_each(places.tables, "gradient of a table", table.values());
  for (const TensorView& slopes : bias.alibi_slopes()) ask_each(places.alibi_slopes, "gradient of slopes", slopes);
  const Score& score = call.options.score;
  places.sinks = ask("gradient of sinks", Of::all, call.options.sinks, call.wide());
  places.score = {.w_query = ask("gradient of w", Of::all, score.w_query(), call.wide()),
                  .w_key = ask("gradient of w_key", Of::all, score.w_key(), call.wide()),
                  .v = ask("gradient of the score's v", Of::all, score.v(), call.wide())};
  attention_backward(call.q, call.k, call.v, kept.outputs[0].values, kept.outputs[1].values, call.grad_out,
                     call.options, places);
  return outcome;
}

// What is wanted of the tangents of the outputs, and of the gradients of the gradients along the tangents.
inline Outcome move(const Call& call, const Wants& wants = everything) {
  const Outcome kept = attend(call, plain);
  const TensorView &out = kept.outputs[0].values, &sums = kept.outputs[1].values;
  Outcome outcome;
  const auto ask = [&](const char* name, Of of, const TensorView& like) {
    return wants(name) ? place(outcome, call, name, of, like.shape(), like.dtype()) : MutableTensorView();
  };
  const AttentionTangents tangents{.query = call.tq, .key = call.tk, .value = call.tv};
  const AttentionOutputTangents moved{.out = ask("tangent of the output", Of::queries, out),
                                      .log_sum_exp = ask("tangent of log-sum-exp", Of::queries, sums)};
  attention_jvp(call.q, call.k, call.v, out, sums, tangents, call.options, moved);
  const AttentionSecondGradients second{.query = ask("gradient of queries, second", Of::queries, call.q),
                                        .key = ask("gradient of keys, second", Of::keys, call.k),
                                        .value = ask("gradient of values, second", Of::keys, call.v),
                                        .grad_out = ask("gradient of grad_out", Of::queries, out)};
  attention_double_backward(call.q, call.k, call.v, out, sums, call.grad_out, tangents, call.options, second);
  return outcome;
}

// Sequence b of an outcome: outputs [heads, queries, ...], [heads, queries, keys] and [heads, keys, ...].
inline Outcome sequence(const Call& call, const Outcome& outcome, std::int64_t b) {
  Outcome own{.outputs = {}, .kept = outcome.kept};
  for (const auto& [name, of, values] : outcome.outputs) {
    if (of == Of::queries) own.outputs.push_back({name, of, call.of_queries(values, b)});
    if (of == Of::keys) own.outputs.push_back({name, of, call.of_keys(values, b)});
    if (of != Of::pairs) continue;
    const TensorView rows = call.of_queries(values, b);
    own.outputs.push_back({name, of, rows.slice(2, 0, call.key_length(b))});
  }
  return own;
}

// Rows that a view maps, of the outputs that have such rows.
inline Outcome part(const Outcome& whole, Of of, const std::function<TensorView(const TensorView&)>& view) {
  Outcome part{.outputs = {}, .kept = whole.kept};
  for (const Output& output : whole.outputs) {
    if (output.of == of) part.outputs.push_back({output.name, of, view(output.values)});
  }
  return part;
}

// Nothing, or the first element whose bits differ; NaN is NaN.
// `any_zero`: 0 and -0 are one.
inline std::string other_bits(const TensorView& a, const TensorView& b, bool any_zero) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return to_string(a.shape()) + " " + to_string(b.shape());
  if (same_bits(a, b)) return "";
  const std::vector<double> x = values(a), y = values(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] && (any_zero || std::signbit(x[i]) == std::signbit(y[i]));
    if (!same && !(std::isnan(x[i]) && std::isnan(y[i]))) return fmt::format("element {}: {} and {}", i, x[i], y[i]);
  }
  return "";
}

// Of all outputs that both have; returns how many these are.
inline int expect_same(const Outcome& a, const Outcome& b) {
  int compared = 0;
  for (std::size_t n = 0, m = 0; n < a.outputs.size() && m < b.outputs.size(); ++n) {
    std::size_t at = m;
    while (at < b.outputs.size() && b.outputs[at].name != a.outputs[n].name) ++at;
    if (at == b.outputs.size()) continue;
    const std::string& name = a.outputs[n].name;
    // The sign of a gradient of 0 is that of what masked pairs add, which depends on the tiles that are computed.
    EXPECT_EQ(other_bits(a.outputs[n].values, b.outputs[at].values, name.starts_with("gradient")), "") << name;
    ++compared, m = at + 1;
  }
  return compared;
}

// What becomes of the arrays and functions of some options; what is not set stays.
struct Change {
  using View = std::function<TensorView(const TensorView&)>;
  View pairs{};      // that broadcast to [batch, heads, queries, keys]: booleans and biases
  View sequences{};  // with an element for each: prefixes and lengths
  View query_ids{}, key_ids{};
  View slopes{}, sinks{};
  std::function<Pair(Pair)> pair{};
  bool drops_lengths = false;
  std::optional<Align> align{};

  const View& of(MaskArrayOf array) const {
    const View* const views[] = {&sequences, &query_ids, &key_ids, &pairs};
    return *views[static_cast<std::size_t>(array)];
  }
};

inline MaskFunction changed(const MaskFunction& function, const std::function<Pair(Pair)>& pair) {
  return mask_function([function, pair](const Pair& at) {
    std::uint8_t visible = 0;
    function.fill({pair(at), 1, 1, 1, 1, &visible});
    return visible != 0;
  });
}
inline LogitFunction changed(const LogitFunction& function, const std::function<Pair(Pair)>& pair) {
  return logit_function([function, pair](auto logit, const Pair& at) {
    function.change_tile(PairTile<decltype(logit)>{pair(at), 1, 1, 1, 1, &logit});
    return logit;
  });
}
inline AttentionOptions changed(const AttentionOptions& from, const Change& change) {
  const auto apply = [](const Change::View& view, const TensorView& array) { return view ? view(array) : array; };
  AttentionOptions to = from;
  const std::optional<Align> align = change.align ? change.align : from.mask.align();
  to.mask = Mask::window(-1, -1, align);
  for (Mask::Part part : from.mask.parts()) {
    if (part.kind == MaskKind::lengths && change.drops_lengths) continue;
    if (part.kind == MaskKind::function) {
      if (change.pair) part.function = changed(*part.function, change.pair);
    } else {
      const auto arrays = description_of(part.kind).arrays;
      for (std::size_t n = 0; n < arrays.size(); ++n) part.arrays[n] = apply(change.of(arrays[n].of), part.arrays[n]);
      part.blocks = nullptr;
    }
    to.mask = to.mask & Mask(part);
  }
  to.bias = Bias();
  for (const TensorView& view : from.bias.views()) to.bias = to.bias + Bias::view(apply(change.pairs, view));
  for (const TensorView& slopes : from.bias.alibi_slopes()) {
    to.bias = to.bias + Bias::alibi(apply(change.slopes, slopes));
  }
  for (const RelativeTable& table : from.bias.tables()) to.bias = to.bias + Bias::table(table);
  if (from.sinks) to.sinks = apply(change.sinks, from.sinks);
  if (from.logit_function && change.pair) to.logit_function = changed(from.logit_function, change.pair);
  return to;
}

// Indices of an array's dimension, counted from the last; an extent of 1 repeats.
inline TensorView cut(const TensorView& array, int from_end, std::int64_t begin, std::int64_t end) {
  if (array.rank() < from_end || array.size(-from_end) == 1) return array;
  return array.slice(array.rank() - from_end, begin, std::min(end, array.size(-from_end)));
}
inline TensorView of_sequence(const TensorView& array, int rank, std::int64_t b) {
  return array.rank() < rank ? array : array.select(0, array.size(0) == 1 ? 0 : b);
}

// Sequence b by itself: [heads, length, size], without lengths, offsets and pages.
inline Call alone(const Call& call, std::int64_t b) {
  Call one = call;
  const std::int64_t q_len = call.query_length(b), k_len = call.key_length(b);
  call.give(
      one, [&](const TensorView& rows) { return call.of_queries(rows, b); },
      [&](const TensorView& rows) { return call.keys_of(one.kept, rows, b); });
  const auto own_ids = [b](const TensorView& ids, const TensorView& offsets, std::int64_t length) {
    if (!offsets) return cut(of_sequence(ids, 2, b), 1, 0, length);
    const std::int64_t first = integers(offsets)[static_cast<std::size_t>(b)];
    return ids.slice(0, first, first + length);
  };
  const auto change_pair = [b](Pair at) { return at.batch += static_cast<std::int32_t>(b), at; };
  one.options = changed(
      call.options,
      {.pairs = [=](const TensorView& view) { return cut(cut(of_sequence(view, 4, b), 2, 0, q_len), 1, 0, k_len); },
       .sequences = [=](const TensorView& counts) { return counts.slice(0, b, b + 1); },
       .query_ids = [&](const TensorView& view) { return own_ids(view, call.options.offsets_query, q_len); },
       .key_ids = [&](const TensorView& view) { return own_ids(view, call.options.offsets_key, k_len); },
       .slopes = [=](const TensorView& slopes) { return of_sequence(slopes, 2, b); },
       .pair = change_pair,
       .drops_lengths = true});
  one.options.offsets_query = one.options.offsets_key = one.options.block_table = TensorView();
  return one;
}

enum class Pass { forward, backward, tangents };

// A call, and the pass whose outputs are compared.
struct Subject {
  Call call;
  Pass pass;
  Random random;

  bool is_forward() const { return pass == Pass::forward; }
  Outcome run(const Call& changed, const Wants& wants = everything) const {
    return pass == Pass::forward ? attend(changed, wants) : run_alone(changed, everything);
  }
  Outcome run_alone(const Call& changed, const Wants& wants) const {
    return pass == Pass::forward    ? attend(changed, wants)
           : pass == Pass::backward ? differentiate(changed, wants)
                                    : move(changed, wants);
  }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
  }
  // Everything, or what leaves more to threads and heads.
  const Wants& some() { return wants_[random.below(3)]; }

  static inline const Wants wants_[] = {everything, plain, nothing};
};

// [heads, queries, keys]: 1 where the masks of one sequence let a query see a key.
inline Tensor visible_pairs(const Call& one) {
  const TensorView q = one.q.slice(2, 0, 1), k = one.k.slice(2, 0, 1);
  const Tensor zero_q = Tensor::zeros(q.shape()), zero_k = Tensor::zeros(k.shape());
  const Tensor logits = reference::attention(zero_q, zero_k, zero_k, {.mask = one.options.mask}).logits;
  Tensor visible = Tensor::zeros({q.size(0), q.size(1), k.size(1)}, Dtype::boolean);
  for (std::int64_t i = 0; i < visible.element_count(); ++i) visible.data<bool>()[i] = logits.data<double>()[i] == 0;
  return visible;
}

}  // namespace qkv::testing::relations
