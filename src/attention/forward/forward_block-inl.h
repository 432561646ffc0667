// One block of queries of one head: transposed once, then run over the keys in tiles. Included once per CPU target.

#if defined(QKV_ATTENTION_FORWARD_FORWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_FORWARD_FORWARD_BLOCK_INL_H_
#undef QKV_ATTENTION_FORWARD_FORWARD_BLOCK_INL_H_
#else
#define QKV_ATTENTION_FORWARD_FORWARD_BLOCK_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "attention/extras/extras_pass-inl.h"
#include "attention/forward/forward_kernel.h"
#include "attention/forward/forward_part-inl.h"
#include "attention/tile/accumulate-inl.h"
#include "attention/tile/dropout-inl.h"
#include "attention/tile/exact_product-inl.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/sinks-inl.h"
#include "attention/tile/softmax_state-inl.h"
#include "attention/tile/tile_walk-inl.h"
#include "core/mathematics.h"
#include "simd/rows-inl.h"
#include "simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// T: type of the accumulation; Product: how the two products take their operands.
template <class T, int kVectors, class Product>
class ForwardBlock {
 public:
  // Queries begin <= i < end. `weights`, and what is taken of `own`: as ForwardScratch says.
  ForwardBlock(const AttentionTask& task, std::int64_t begin, std::int64_t end, const Product& product, T* weights,
               ScratchRoom& own)
      : task_(task),
        begin_(begin),
        count_(end - begin),
        visibility_(task_, begin_, count_),
        top_keys_(task_, begin_, count_, own.take<T>(TopKeys<T, kVectors>::scratch_size(task_))),
        dropout_(task_, begin_),
        product_(product),
        logits_(product),
        weights_(weights),
        out_(own.take<T>(ForwardScratch<T, kVectors, Product>(task).out)),
        chunk_out_(own.take<T>(ForwardScratch<T, kVectors, Product>(task).out)) {
    logits_.prepare(task_, begin_, count_, from_row(task_.query, begin_), own);
    state_.reset();
    std::fill(row_maximum_, row_maximum_ + kColumns, -kInfinity<T>);
    std::memset(out_, 0, sizeof(T) * ForwardScratch<T, kVectors, Product>(task).out);
  }

  // What is to be fetched for `next` while this block's tiles are computed.
  void announce(const QueryBlock& next) {
    const AttentionTask& task = *next.task;
    const auto add = [this](const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size) {
      const auto element = static_cast<std::int64_t>(size_of(rows.type));
      if (rows.data == nullptr) return;
      ahead_.add(from_row(rows, first).data, rows.step * element, last - first, size * element);
    };
    const std::int64_t end = std::min(next.begin + kTileColumns<T>, next.end);
    add(task.query, next.begin, end, task.common->query_dim);
    add({task.out.data, task.common->out_type, task.out.step}, next.begin, end, task.common->value_dim);
    if (task.key.pages == nullptr && task.key.data != task_.key.data) {
      add(task.key, 0, task.k_len, task.common->key_dim);
      add(task.value, 0, task.k_len, task.common->value_dim);
    }
    const std::int64_t keys = visibility_.last_key() - visibility_.first_key();
    const std::int64_t times = keys / kTileRows + 1 + (keys / kBlockKeys + 1) * (task_.common->value_dim / kTileRows);
    ahead_lines_ = divide_up(ahead_.lines(), times);
  }

  // A partial result to go on with, and the one that there is now.
  void load(const std::byte* part) {
    std::memcpy(&state_, part, sizeof(State));
    std::memcpy(out_, part + sizeof(State), Part::out_bytes(task_));
    has_begun_ = true;
  }
  void store(std::byte* part) const {
    std::memcpy(part, &state_, sizeof(State));
    std::memcpy(part + sizeof(State), out_, Part::out_bytes(task_));
  }

  // Keys first <= j < last, multiples of kBlockKeys; to be called for all keys, in order, or for those of a part.
  void attend(std::int64_t first, std::int64_t last) {
    task_.is_plain ? attend_in<Unit::base2>(first, last) : attend_in<Unit::natural>(first, last);
  }

  void finish() { task_.is_plain ? finish_in<Unit::base2>() : finish_in<Unit::natural>(); }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  using State = SoftmaxState<T, kVectors>;
  using Part = ForwardPart<T, kVectors>;
  // Their largest logits decide together whether a maximum moves.
  static constexpr int kTileSteps = kTileRows / kStepRows;
  // Tiles of few rows: what is done for each tile would wait for its sums, and the next one's products with it.
  static constexpr bool kWeighsLater = HWY_TARGET == HWY_AVX2 && Product::kGroupKeys == 0;

  using Tile = Vec<T>[kTileRows][kVectors];
  using VectorRange = typename Visibility<T, kVectors>::VectorRange;
  using Coverage = typename Visibility<T, kVectors>::Coverage;
  using Lanes = typename Visibility<T, kVectors>::Lanes;

  // The first chunk goes to state_ and out_ directly, later ones are merged into them.
  template <Unit kUnit>
  void attend_in(std::int64_t first, std::int64_t last) {
    const std::int64_t last_key = visibility_.last_key();
    const auto attend_block = [&](std::int64_t block, std::int64_t begin, std::int64_t end, bool visible) {
      if (block % kChunkKeys == 0 && has_begun_) begin_later_chunk();
      has_begun_ = true;
      T* out = is_later_ ? chunk_out_ : out_;
      if (visible) attend_keys<kUnit>(block, begin, end, is_later_ ? chunk_state_ : state_, out);
      if (is_later_ && (end == last_key || end % kChunkKeys == 0)) {
        merge_states<kUnit>(state_, out_, chunk_state_, chunk_out_, task_.common->value_dim);
      }
    };
    walk_blocks<kBlockKeys>(visibility_, first, last, attend_block);
  }

  void begin_later_chunk() {
    is_later_ = true;
    chunk_state_.reset();
    std::memset(chunk_out_, 0, sizeof(T) * task_.common->value_dim * kColumns);
  }

  template <Unit kUnit>
  void finish_in() {
    if (has_sink(task_)) add_sink<kUnit>(task_, state_, out_, chunk_out_);
    if (task_.out.data != nullptr) write_out();
    if (task_.log_sum_exp.data != nullptr) write_log_sum_exp<kUnit>();
    if (wants_row_maximum_) write_row_maximum<kUnit>();
    if (top_keys_.is_on()) top_keys_.template write<kUnit>(state_);
    if (wants_extras_pass(task_)) {
      ExtrasPass<kUnit, T, kVectors, Product>(task_, begin_, count_, visibility_, logits_, state_, weights_).run();
    }
  }

  // Keys first <= j < last, within the block that begins at `block`.
  template <Unit kUnit>
  void attend_keys(std::int64_t block, std::int64_t first, std::int64_t last, State& state, T* out) {
    const std::int64_t first_row = (first - block) / kTileRows * kTileRows;
    VectorRange taken[kBlockKeys / kTileRows];  // the vectors of queries that take part in a tile
    bool masked = false;
    std::int64_t rest = first;
    if constexpr (kUnit == Unit::base2 && kWeighsLater) {
      const std::int64_t begin = block + first_row, keys = (last - begin) / kTileRows * kTileRows;
      if (keys > 0 && visibility_.sees_all(begin, keys) && !wants_row_maximum_ && !top_keys_.is_on()) {
        std::fill_n(taken + first_row / kTileRows, keys / kTileRows, VectorRange{0, kVectors});
        multiply_block({block, first_row, first_row, /*vector=*/0}, keys, state, out);
        rest = begin + keys;
      }
    }
    walk_tiles(visibility_, rest, last, [&](std::int64_t key, Coverage coverage) {
      const std::int64_t row = key - block;
      const Place place{block, first_row, row, /*vector=*/0};
      VectorRange& range = taken[row / kTileRows];
      range = {0, kVectors};
      ahead_.fetch(ahead_lines_);
      if (coverage == Coverage::none) {
        range = {0, 0};
        hide_rows(row, row + kTileRows);
        return;
      }
      const bool by_keys = coverage == Coverage::some && visibility_.hides_keys(key);
      if (coverage == Coverage::some && !by_keys) {
        // Edges, as the causal one: products for the vectors that see nothing would be up to half of a block's.
        if constexpr (kUnit == Unit::base2 && kVectors > 1) {
          range = visibility_.vectors_seeing(key);
          if (range.end - range.begin < kVectors) {
            hide_rows(row, row + kTileRows);
            const bool all = visibility_.see_all(key, range);
            masked = masked || !all;
            return all ? absorb_range<false>(place, range, state, out) : absorb_range<true>(place, range, state, out);
          }
        }
      }
      masked = masked || coverage == Coverage::some;
      if (far_) fetch_tiles(key);
      Tile tile;
      logits_.template compute<kUnit>(task_, key, tile);
      if (coverage == Coverage::some && !by_keys) {
        Lanes hidden[kTileRows][kVectors];
        visibility_.hide(key, tile, /*first=*/0, hidden);
        return absorb<kUnit, true>(place, tile, hidden, state, out);
      }
      if (by_keys) hide_keys(tile);
      absorb<kUnit, false>(place, tile, nullptr, state, out);
      if (by_keys) mark_keys(row);
    });
    state.finish_block();
    if (task_.out.data == nullptr) return;
    if (dropout_.is_on()) dropout_.drop(block + first_row, last - block - first_row, weights_ + first_row * kColumns);
    if constexpr (Product::kGroupKeys > 0) {
      constexpr std::int64_t kGroup = Product::kGroupKeys;
      const std::int64_t first_group = first_row / kGroup * kGroup, end = divide_up(last - block, kGroup) * kGroup;
      hide_rows(first_group, first_row);
      hide_rows(divide_up(last - block, kTileRows) * kTileRows, end);
      for (std::int64_t dim = 0; dim < task_.common->value_dim; dim += kTileRows) ahead_.fetch(ahead_lines_);
      product_.template add_values<kVectors>(task_, block, block + first_group, block + end, weights_, out);
    } else {
      add_tiles(block, first_row, last, taken, masked, out);
    }
  }

  // Where the weights of a tile of keys go: to row `row` of the block of keys that begins at `block`, whose rows begin
  // with first_row; and, of queries, to vectors from `vector` on.
  struct Place {
    std::int64_t block, first_row, row;
    int vector;
  };

  // The weights of `keys` keys that all queries see: first all logits, so that no tile's products wait for weights.
  HWY_NOINLINE void multiply_block(Place place, std::int64_t keys, State& state, T* out) {
    const Tag<T> d;
    const std::int64_t end = place.row + keys;
    Tile tile;
    Vec<T> top[kVectors];
    for (Vec<T>& x : top) x = hn::Set(d, -kInfinity<T>);
    for (std::int64_t row = place.row; row < end; row += kTileRows) {
      check_stop();
      ahead_.fetch(ahead_lines_);
      if (far_) fetch_tiles(place.block + row);
      logits_.template compute<Unit::base2>(task_, place.block + row, tile);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        QKV_UNROLL for (int r = 0; r < kTileRows; ++r) top[c] = hn::Max(top[c], tile[r][c]);
      }
      store_sums<kVectors>(tile, weights_ + row * kColumns);
    }
    const Vec<T> unit = unit_of<Unit::base2, T>(task_);
    for (; place.row < end && state.is_exceeded_by(top, unit, 0); place.row += kTileRows) {
      load_sums<kVectors>(weights_ + place.row * kColumns, tile);
      absorb<Unit::base2, false>(place, tile, nullptr, state, out);
    }
    weigh_rows<Product>(state, unit, weights_ + place.row * kColumns, end - place.row);
  }

  // Whether keys and values come from far: no other block of queries has read them, and they are more than announce()
  // asks for.
  bool are_far() const {
    const std::int64_t bytes = task_.k_len * task_.common->key_dim * static_cast<std::int64_t>(sizeof(T));
    return task_.q_len == count_ && size_of(task_.key.type) == sizeof(T) && bytes > Prefetch::kMostBytes;
  }

  // Asks for the keys after the next tile, and the values of this one.
  HWY_INLINE void fetch_tiles(std::int64_t key) const {
    const std::int64_t ahead = key + 2 * kTileRows, k_len = task_.k_len;
    fetch_rows<T>(task_.key, ahead, std::min(ahead + kTileRows, k_len), task_.common->key_dim);
    fetch_rows<T>(task_.value, key, std::min(key + kTileRows, k_len), task_.common->value_dim);
  }

  // Where groups of keys are multiplied whole, rows of weights that nobody computes are those of hidden keys.
  HWY_INLINE void hide_rows(std::int64_t first, std::int64_t last) {
    if constexpr (Product::kGroupKeys > 0) std::fill(weights_ + first * kColumns, weights_ + last * kColumns, T(-0.0));
  }

  // Of a tile whose hidden keys are hidden from all queries: their logits, and their weights in rows `row` and below.
  HWY_INLINE void hide_keys(Tile& tile) const {
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      const auto hidden = visibility_.hidden_key(r);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        tile[r][c] = hn::IfThenElse(hidden, hn::Set(Tag<T>(), -kInfinity<T>), tile[r][c]);
      }
    }
  }
  HWY_INLINE void mark_keys(std::int64_t row) const {
    const Tag<T> d;
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      const auto hidden = visibility_.hidden_key(r);
      T* weights = weights_ + (row + r) * kColumns;
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        T* at = weights + c * kLanes<T>;
        hn::Store(hn::IfThenElse(hidden, hn::Set(d, T(-0.0)), hn::Load(d, at)), d, at);
      }
    }
  }

  // Values times weights for the tiles from row `first` of the block on, up to key `last`.
  void add_tiles(std::int64_t block, std::int64_t first, std::int64_t last, const VectorRange* taken, bool masked,
                 T* out) {
    for (std::int64_t key = block + first; key < last;) {
      const std::int64_t tile = (key - block) / kTileRows;
      std::int64_t end = tile + 1;
      while (block + end * kTileRows < last && taken[end] == taken[tile]) ++end;
      const auto values = product_.template value_rows<T>(task_, key, std::min(last, block + end * kTileRows));
      if (taken[tile].begin < taken[tile].end) {
        add_values(values, key - block, taken[tile], masked && !values.are_finite(task_.common->value_dim), out);
      }
      key += values.count;
    }
  }

  // Values times weights, which begin in row `row`, for some vectors of queries.
  template <class ValueRows>
  void add_values(const ValueRows& values, std::int64_t row, VectorRange range, bool guarded, T* out) {
    const std::int64_t column = range.begin * kLanes<T>;
    T* weights = weights_ + row * kColumns + column;
    const T* marks = guarded ? weights : nullptr;
    const auto fetch = [this] { ahead_.fetch(ahead_lines_); };
    if (range.end - range.begin == kVectors) {
      accumulate<kVectors>(values, task_.common->value_dim, weights, marks, out, fetch);
    } else if (range.end - range.begin == 1) {
      accumulate<1, kVectors>(values, task_.common->value_dim, weights, marks, out + column, fetch);
    } else if constexpr (kVectors > 2) {
      accumulate<2, kVectors>(values, task_.common->value_dim, weights, marks, out + column, fetch);
    }
  }

  // A tile for some vectors of queries, kCount of them and not all.
  template <bool kMasked, int kCount>
  HWY_NOINLINE void absorb_some(const Place& place, State& state, T* out) {
    const std::int64_t key = place.block + place.row;
    Vec<T> tile[kTileRows][kCount];
    Lanes hidden[kTileRows][kCount];
    logits_.compute_some(task_, key, place.vector, tile);
    if constexpr (kMasked) visibility_.hide(key, tile, place.vector, hidden);
    absorb<Unit::base2, kMasked>(place, tile, hidden, state, out);
  }

  // The same for one or two.
  template <bool kMasked>
  HWY_INLINE void absorb_range(Place place, VectorRange range, State& state, T* out) {
    place.vector = range.begin;
    if (range.end - range.begin == 1) return absorb_some<kMasked, 1>(place, state, out);
    if constexpr (kVectors > 2) absorb_some<kMasked, 2>(place, state, out);
  }

  // The tile's logits become weights; a hidden key's weight is -0, so that the guarded product can tell it from a
  // weight that vanished. `hidden`: [kTileRows][kCount] if kMasked.
  template <Unit kUnit, bool kMasked, int kCount>
  HWY_INLINE void absorb(const Place& place, const Vec<T> (&tile)[kTileRows][kCount],
                         std::type_identity_t<const Lanes (*)[kCount]> hidden, State& state, T* out) {
    const std::int64_t column = place.vector * kLanes<T>;
    Vec<T> tops[kTileSteps][kCount], top[kCount];
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      QKV_UNROLL for (int step = 0; step < kTileSteps; ++step) {
        tops[step][c] = tile[step * kStepRows][c];
        QKV_UNROLL for (int r = 1; r < kStepRows; ++r) {
          tops[step][c] = hn::Max(tops[step][c], tile[step * kStepRows + r][c]);
        }
      }
      top[c] = tops[0][c];
      QKV_UNROLL for (int step = 1; step < kTileSteps; ++step) top[c] = hn::Max(top[c], tops[step][c]);
    }
    if (HWY_UNLIKELY(wants_row_maximum_)) raise_row_maximum(column, tile);
    if (HWY_UNLIKELY(top_keys_.is_on())) top_keys_.add(place.block + place.row, place.vector, tile);
    if (HWY_LIKELY(!state.is_exceeded_by(top, unit_of<kUnit, T>(task_), place.vector))) {
      return weigh<kUnit, kMasked, kTileRows>(place, /*first=*/0, tile, hidden, state);
    }
    // Copies, so that the tile itself stays in registers.
    Vec<T> rows[kTileRows][kCount];
    Lanes marks[kTileRows][kCount];
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kCount; ++c) {
        rows[r][c] = tile[r][c];
        if constexpr (kMasked) marks[r][c] = hidden[r][c];
      }
    }
    absorb_steps<kUnit, kMasked>(place, rows, marks, tops, state, out);
  }

  // The same for a tile that moves a maximum: step by step. What is older than the tile is multiplied once, as long as
  // no lane moves twice: two factors in one would round otherwise.
  template <Unit kUnit, bool kMasked, int kCount>
  HWY_NOINLINE void absorb_steps(const Place& place, const Vec<T> (&tile)[kTileRows][kCount],
                                 const Lanes (&hidden)[kTileRows][kCount], const Vec<T> (&tops)[kTileSteps][kCount],
                                 State& state, T* out) {
    const Tag<T> d;
    const Vec<T> unit = unit_of<kUnit, T>(task_), one = hn::Set(d, T(1));
    T* rows = weights_ + place.row * kColumns + place.vector * kLanes<T>;
    Vec<T> older[kCount], factor[kCount];
    for (int c = 0; c < kCount; ++c) older[c] = one;
    for (int step = 0; step < kTileSteps; ++step) {
      if (state.is_exceeded_by(tops[step], unit, place.vector)) {
        state.template move_maximum<kUnit>(tops[step], unit, place.vector, factor);
        scale_columns(rows, kColumns, step * kStepRows, factor);
        auto twice = hn::And(hn::Ne(older[0], one), hn::Ne(factor[0], one));
        for (int c = 1; c < kCount; ++c) {
          twice = hn::Or(twice, hn::And(hn::Ne(older[c], one), hn::Ne(factor[c], one)));
        }
        if (!hn::AllFalse(d, twice)) {
          scale_older(place, older, out);
          for (int c = 0; c < kCount; ++c) older[c] = one;
        }
        for (int c = 0; c < kCount; ++c) older[c] = hn::Mul(older[c], factor[c]);
      }
      weigh<kUnit, kMasked, kStepRows>(place, step * kStepRows, tile, hidden, state);
    }
    scale_older(place, older, out);
  }

  template <int kCount>
  HWY_INLINE void scale_older(const Place& place, const Vec<T> (&factor)[kCount], T* out) const {
    const Tag<T> d;
    const Vec<T> one = hn::Set(d, T(1));
    auto moves = hn::Ne(factor[0], one);
    for (int c = 1; c < kCount; ++c) moves = hn::Or(moves, hn::Ne(factor[c], one));
    if (hn::AllFalse(d, moves)) return;
    const std::int64_t column = place.vector * kLanes<T>;
    scale_columns(weights_ + place.first_row * kColumns + column, kColumns, place.row - place.first_row, factor);
    scale_columns(out + column, kColumns, task_.common->value_dim, factor);
  }

  // NaN stays: hn::Max loses it on some targets.
  template <int kCount>
  HWY_INLINE void raise_row_maximum(std::int64_t column, const Vec<T> (&tile)[kTileRows][kCount]) {
    const Tag<T> d;
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      T* at = row_maximum_ + column + c * kLanes<T>;
      Vec<T> largest = hn::Load(d, at);
      QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
        const Vec<T> x = tile[r][c];
        largest = hn::IfThenElse(hn::Or(hn::Lt(largest, x), hn::IsNaN(x)), x, largest);
      }
      hn::Store(largest, d, at);
    }
  }

  // The weights of the tile's rows from `first` on, kRows of them.
  template <Unit kUnit, bool kMasked, int kRows, int kCount>
  HWY_INLINE void weigh(const Place& place, int first, const Vec<T> (&tile)[kTileRows][kCount],
                        std::type_identity_t<const Lanes (*)[kCount]> hidden, State& state) {
    const Tag<T> d;
    const std::int64_t column = place.vector * kLanes<T>;
    const Vec<T> unit = unit_of<kUnit, T>(task_);
    T* weights = weights_ + place.row * kColumns + column;
    QKV_UNROLL for (int c = 0; c < kCount; ++c) {
      const Vec<T> maximum = hn::Load(d, state.maximum + column + c * kLanes<T>);
      Vec<T> sum = hn::Load(d, state.block + column + c * kLanes<T>);
      QKV_UNROLL for (int r = 0; r < kRows; ++r) {
        Vec<T> weight = Product::template weight<kUnit, T>(hn::Sub(hn::Mul(tile[first + r][c], unit), maximum));
        sum = hn::Add(sum, weight);
        if constexpr (kMasked) weight = hn::IfThenElse(hidden[first + r][c], hn::Set(d, T(-0.0)), weight);
        hn::Store(weight, d, weights + (first + r) * kColumns + c * kLanes<T>);
      }
      hn::Store(sum, d, state.block + column + c * kLanes<T>);
    }
  }

  // 1 / sum per query of vector c, 0 for a query without keys.
  HWY_INLINE Vec<T> inverse_sum(int c) const {
    const Tag<T> d;
    const Vec<T> sum = hn::Load(d, state_.sum + c * kLanes<T>);
    return hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, T(1)), sum));
  }

  HWY_NOINLINE void write_out() {
    with_type<T>(task_.common->out_type, [&]<class Out>(Out) {
      for (int c = 0; c < kVectors && c * kLanes<T> < count_; ++c) {
        const std::int64_t first = c * kLanes<T>;
        const std::int64_t rows = HWY_MIN(count_ - first, kLanes<T>);
        Out* target = reinterpret_cast<Out*>(task_.out.data) + (begin_ + first) * task_.out.step;
        lanes_to_rows(out_ + first, kColumns, rows, task_.common->value_dim, inverse_sum(c), target, task_.out.step);
      }
    });
  }

  template <Unit kUnit>
  void write_log_sum_exp() {
    T* target = reinterpret_cast<T*>(task_.log_sum_exp.data) + begin_ * task_.log_sum_exp.step;
    for (std::int64_t i = 0; i < count_; ++i, target += task_.log_sum_exp.step) {
      *target = log_sum_exp(state_.maximum[i], state_.sum[i], kUnitLogarithm<kUnit>);
    }
  }

  template <Unit kUnit>
  void write_row_maximum() {
    T* target = reinterpret_cast<T*>(task_.row_maximum.data) + begin_ * task_.row_maximum.step;
    for (std::int64_t i = 0; i < count_; ++i, target += task_.row_maximum.step) {
      *target = row_maximum_[i] * natural_unit_of<kUnit, T>(task_);
    }
  }

  const AttentionTask& task_;
  const std::int64_t begin_, count_;
  const bool wants_row_maximum_ = task_.row_maximum.data != nullptr;
  Visibility<T, kVectors> visibility_;
  TopKeys<T, kVectors> top_keys_;
  BlockDropout<T, kVectors> dropout_;
  Product product_;
  BlockLogits<T, kVectors, Product> logits_;
  const bool far_ = are_far();
  Prefetch ahead_;
  std::int64_t ahead_lines_ = 0;  // at a time
  State state_, chunk_state_;
  HWY_ALIGN T row_maximum_[kColumns];  // the largest logit so far; what weights are relative to is lazy
  bool has_begun_ = false;             // the first chunk
  bool is_later_ = false;              // not the first chunk
  T* weights_;                         // [kBlockKeys][kColumns], and what the product needs beside them
  T* out_;                             // [value_dim][kColumns]
  T* chunk_out_;                       // the same, of a later chunk
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
