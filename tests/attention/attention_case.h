// One random call of attention, drawn from a seed or from bytes: lengths, sizes, heads, types, layout, pages, masks,
// biases, scores and numbers in any combination. The same seed draws the same call everywhere.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "attention/call/output_kinds.h"
#include "attention/choices.h"
#include "attention/hidden_rows.h"
#include "attention/options/mask_kinds.h"
#include "sanitizers.h"

namespace qkv::testing {

// What is asked for besides the output.
struct Requests {
  std::set<std::string_view> names;
  std::int64_t top = 0;                        // keys
  std::array<std::int64_t, 2> parts = {0, 0};  // of the averages over blocks
  std::int64_t rows = 0;                       // chosen ones

  bool has(const OutputDescription& kind) const { return names.contains(kind.name); }
};

struct CaseSizes {
  std::int64_t batch, kv_heads, group, q_len, k_len, head_dim, value_dim;
};

class AttentionCase {
 public:
  // Products of batch, heads and lengths stay below `most_pairs`.
  AttentionCase(Choices choices, double most_pairs) : AttentionCase(choices, most_pairs, nullptr) {}
  // Of these sizes; a packed one has some shorter sequences, too.
  AttentionCase(Choices choices, const CaseSizes& sizes) : AttentionCase(choices, 0, &sizes) {}
  AttentionCase(const AttentionCase&) = delete;

  TensorView q, k, v;
  Dtype out_dtype = Dtype::f32;
  AttentionOptions options;
  Requests requests;
  std::uint64_t seed = 0;  // of what a test adds to the call
  HiddenRows unseen;       // rows of NaN or infinities
  bool is_finite = true;   // no NaN where somebody may see it, nor a logit of infinity

  bool packed() const { return packed_; }
  bool paged() const { return paged_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t heads() const { return heads_; }
  // Of the weights that dropout keeps.
  double dropout_factor() const { return 1 / (1 - options.dropout.p); }
  std::int64_t longest_query_length() const { return q_len_; }
  std::int64_t longest_key_length() const { return k_len_; }
  std::int64_t key_length(std::int64_t b) const {
    if (paged_) return page_lengths_[static_cast<std::size_t>(b)];
    return packed_ ? rows(k_offsets_, b) : k_len_;
  }
  std::int64_t query_length(std::int64_t b) const { return packed_ ? rows(q_offsets_, b) : q_len_; }
  std::string describe() const {
    return fmt::format("batch {}, heads {}/{}, {} x {}, head_dim {}, value_dim {}, {} into {}{}", batch_, heads_,
                       kv_heads_, q_len_, k_len_, head_dim_, value_dim_, name_of(dtype_), name_of(out_dtype), notes_);
  }

 private:
  AttentionCase(Choices choices, double most_pairs, const CaseSizes* sizes)
      : choices_(choices), random_(choices_.random()) {
    sizes == nullptr ? draw_sizes(most_pairs) : take_sizes(*sizes);
    draw_form();
    dtype_ = pick<Dtype>({Dtype::f32, Dtype::f32, Dtype::f32, Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16});
    accumulation_ = dtype_ == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    out_dtype = chance(0.5) ? dtype_ : accumulation_;
    draw_score();
    draw_inputs();
    draw_mask();
    draw_bias();
    draw_sinks();
    if (chance(0.3)) draw_tables();
    draw_functions();
    if (chance(0.25)) options.scale = note("scale", pick<double>({0, -0.0, 1, -0.5, 0.3, 1e-30}) * safe_scale_);
    if (chance(0.2)) options.soft_cap = note("cap", pick<double>({0.01, 0.5, 1, 3, 30, 1e6}));
    options.threads = pick<int>({1, 1, 2, 3});
    if (chance(0.2))
      options.dropout = {.p = note("dropout", pick<double>({0, 0.1, 0.5, 0.9, 0.999})), .seed = choices_.below(1000)};
    draw_hidden();
    draw_visible();
    draw_requests();
    seed = choices_.below(1 << 30);
  }

  bool chance(double probability) { return choices_.chance(probability); }

  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices_.pick(choices);
  }

  std::int64_t up_to(std::int64_t most) {
    return static_cast<std::int64_t>(choices_.below(static_cast<std::uint64_t>(most) + 1));
  }

  template <class T>
  T note(const char* name, T value) {
    notes_ += fmt::format(", {} {}", name, value);
    return value;
  }

  TensorView keep(Tensor tensor) { return kept_.keep(std::move(tensor)); }

  static std::int64_t rows(const std::vector<std::int32_t>& offsets, std::int64_t b) {
    const auto at = static_cast<std::size_t>(b);
    return offsets[at + 1] - offsets[at];
  }

  void draw_sizes(double most_pairs) {
    const auto length = [this] {
      return pick<std::int64_t>(
          {0, 1, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 47, 48, 49, 63, 65, 127, 129, 257, 1023, 1025, 2050});
    };
    const auto size = [this] {
      return pick<std::int64_t>({1, 3, 4, 8, 16, 31, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 256});
    };
    double rows, sizes;
    do {
      batch_ = pick<std::int64_t>({0, 1, 1, 1, 2, 3, 3, 4, 5, 9});
      kv_heads_ = pick<std::int64_t>({1, 1, 2, 3});
      heads_ = kv_heads_ * pick<std::int64_t>({1, 1, 2, 4, 13});
      q_len_ = length();
      k_len_ = length();
      // Large sizes are drawn, but not all at once.
      head_dim_ = size();
      value_dim_ = chance(0.5) ? head_dim_ : size();
      sizes = static_cast<double>(head_dim_ + value_dim_);
      rows = static_cast<double>(batch_ * (heads_ * q_len_ + kv_heads_ * k_len_));
    } while (static_cast<double>(batch_ * heads_ * q_len_ * k_len_) * (1 + sizes / 64) > most_pairs ||
             rows * sizes > 50 * most_pairs);
  }

  void take_sizes(const CaseSizes& sizes) {
    batch_ = sizes.batch, kv_heads_ = sizes.kv_heads, heads_ = sizes.kv_heads * sizes.group;
    q_len_ = sizes.q_len, k_len_ = sizes.k_len, head_dim_ = sizes.head_dim, value_dim_ = sizes.value_dim;
  }

  void draw_form() {
    packed_ = chance(0.25);
    paged_ = chance(0.15);
    if (batch_ == 0 && (packed_ || paged_)) q_len_ = packed_ ? 0 : q_len_, k_len_ = 0;  // no sequence, no row
  }

  void draw_score() {
    const double small = 1 / std::sqrt(static_cast<double>(head_dim_));
    const auto parameter = [this](const Dims& shape, double spread) {
      return keep(normal(random_, shape, accumulation_, spread));
    };
    const std::int64_t hidden = pick<std::int64_t>({1, 3, 8, 17});
    safe_scale_ = 1;
    switch (choices_.below(8)) {
      case 0:
        options.score = Score::additive(parameter({hidden, head_dim_}, small), parameter({hidden, head_dim_}, small),
                                        parameter({hidden}, 1));
        notes_ += ", additive";
        break;
      case 1:
        options.score = Score::concat(parameter({hidden, 2 * head_dim_}, small), parameter({hidden}, 1));
        notes_ += ", concat";
        break;
      case 2:
        options.score = Score::bilinear(parameter({head_dim_, head_dim_}, 1 / static_cast<double>(head_dim_)));
        notes_ += ", bilinear";
        break;
      case 3:
        options.score = Score::dot();
        spread_ = 1 / std::sqrt(static_cast<double>(head_dim_));
        notes_ += ", dot";
        break;
      default:
        safe_scale_ = 1 / std::sqrt(static_cast<double>(head_dim_));
    }
  }

  void draw_inputs() {
    spread_ *= pick<double>({1, 1, 1, 1, 0.01, 10});
    const std::int64_t q_rows = packed_ ? draw_offsets("queries", q_offsets_, q_len_, options.offsets_query) : q_len_;
    const bool packed_keys = packed_ && !paged_;
    const std::int64_t k_rows = packed_keys ? draw_offsets("keys", k_offsets_, k_len_, options.offsets_key) : k_len_;
    const auto input = [&](bool packed, std::int64_t heads, std::int64_t length, std::int64_t size, double spread) {
      return packed ? draw_layout({1, length, heads, size}, spread).select(0, 0)
                    : draw_layout({batch_, heads, length, size}, spread);
    };
    q = input(packed_, heads_, q_rows, head_dim_, spread_);
    k = input(packed_keys, kv_heads_, k_rows, head_dim_, 1);
    v = input(packed_keys, kv_heads_, k_rows, value_dim_, pick<double>({1, 1, 1, 0.01, 100}));
    if (paged_) return draw_pages();
    if (!packed_ && batch_ == 1 && chance(0.3)) {
      notes_ += ", rank 3";
      for (TensorView* view : {&q, &k, &v}) *view = view->select(0, 0);
    }
  }

  // The keys go into pages in random order, among others that hold NaN; lengths say how many there are.
  void draw_pages() {
    const std::int64_t rows = note("pages of", pick<std::int64_t>({1, 5, 16, 64, 300}));
    const std::int64_t blocks = (k_len_ + rows - 1) / rows + pick<std::int64_t>({0, 1}), pages = batch_ * blocks + 2;
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages)), table;
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    Tensor key_pages = filled({pages, rows, kv_heads_, head_dim_}, kNan, dtype_),
           value_pages = filled({pages, rows, kv_heads_, value_dim_}, kNan, dtype_);
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t count = b == 0 ? k_len_ : up_to(k_len_);
      page_lengths_.push_back(note("length", count));
      for (std::int64_t first = 0; first < blocks * rows; first += rows) {
        const std::int64_t own = std::min(rows, count - first);
        table.push_back(own > 0 ? order.back() : -7);  // no page where no key needs one
        if (own <= 0) continue;
        order.pop_back();
        const auto fill = [&](Tensor& to, const TensorView& from) {
          convert(from.select(0, b).slice(1, first, first + own).transpose(0, 1),
                  to.view().select(0, table.back()).slice(0, 0, own));
        };
        fill(key_pages, k);
        fill(value_pages, v);
      }
    }
    k = keep(std::move(key_pages)), v = keep(std::move(value_pages));
    options.block_table = keep(Tensor::of({batch_, blocks}, table));
    options.mask = Mask::lengths(keep(Tensor::of({batch_}, page_lengths_)));
  }

  std::int64_t draw_offsets(const char* name, std::vector<std::int32_t>& offsets, std::int64_t longest,
                            TensorView& view) {
    offsets = {0};
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t rows = b == 0 ? longest : up_to(longest);
      offsets.push_back(offsets.back() + static_cast<std::int32_t>(rows));
      notes_ += fmt::format("{}{}", b == 0 ? std::string(", packed ") + name + " " : "+", rows);
    }
    const Tensor offsets_32 = Tensor::of({batch_ + 1}, offsets);
    view = keep(chance(0.5) ? offsets_32 : convert(offsets_32, Dtype::i64));
    return offsets.back();
  }

  // Numbers in a random memory layout.
  TensorView draw_layout(const Dims& shape, double spread) {
    const Tensor numbers = draw_numbers(choices_, shape, dtype_, spread);
    if (chance(0.4)) return kept_.keep(numbers);
    const MutableTensorView view = scattered(kept_, shape, dtype_, random_, chance(0.3));
    convert(numbers, view);
    return view;
  }

  // A shape that broadcasts to [batch, heads, q_len, k_len].
  Dims draw_broadcast(const char* name) {
    const Dims whole{batch_, heads_, q_len_, k_len_};
    Dims shape;
    const bool same_rank = q.rank() == 3 || chance(0.3);
    for (int dim = same_rank ? pick<int>({1, 2}) : 0; dim < 4; ++dim) shape.push_back(chance(0.4) ? 1 : whole[dim]);
    notes_ += fmt::format(", {} {}", name, to_string(shape));
    return shape;
  }

  void draw_mask() {
    const Align align = chance(0.5) ? Align::top_left : Align::bottom_right;
    for (const MaskDescription& kind : mask_kinds()) {
      if (kind.kind == MaskKind::lengths && paged_) continue;  // they have their own
      for (int i = pick<int>({0, 0, 0, 0, 0, 0, 0, 1, 1, 2}); i > 0; --i) {
        Mask::Part part{.kind = kind.kind};
        notes_ += fmt::format(", {}", kind.name);
        for (std::size_t n = 0; n < kind.numbers.size(); ++n) {
          const auto& [name, least] = kind.numbers[n];
          const std::int64_t number =
              pick<std::int64_t>({-1, 0, 1, 2, 3, 5, 9, 40, 64, 200, 300, std::int64_t{1} << 40});
          part.numbers[n] = note(name, std::max(number, least));
        }
        const bool scattered = chance(0.4);
        for (std::size_t n = 0; n < kind.arrays.size(); ++n) {
          if (n == 1 && q_len_ == k_len_ && q_offsets_ == k_offsets_ && chance(0.5)) break;  // those of the queries
          part.arrays[n] = draw_mask_array(kind, kind.arrays[n].of, scattered);
        }
        Mask mask(part, kind.is_aligned ? std::optional(align) : std::nullopt);
        if (!mask.is_compiled() && chance(0.5)) mask = mask.compiled(), notes_ += " compiled";
        options.mask = options.mask & mask;
      }
    }
    if (options.mask.align() == Align::bottom_right) notes_ += ", bottom-right";
  }

  TensorView draw_mask_array(const MaskDescription& kind, MaskArrayOf of, bool scattered) {
    if (of == MaskArrayOf::queries) return draw_ids(q_offsets_, q_len_, scattered);
    if (of == MaskArrayOf::keys) return draw_ids(k_offsets_, k_len_, scattered);
    if (of == MaskArrayOf::sequences) {
      std::vector<std::int32_t> counts;
      const std::int64_t beyond = kind.kind == MaskKind::lengths ? 0 : 2;
      for (std::int64_t b = 0; b < batch_; ++b) {
        counts.push_back(note("of", static_cast<std::int32_t>(up_to(key_length(b) + beyond))));
      }
      const Tensor of_32 = Tensor::of({batch_}, counts);
      return keep(chance(0.5) ? of_32 : convert(of_32, Dtype::i64));
    }
    const double visible = pick<double>({0, 0.02, 0.5, 0.9, 1});
    Tensor flips = coin_flips(random_, draw_broadcast("of"), visible, pick<Dtype>({Dtype::boolean, Dtype::u8}));
    if (chance(0.5)) repeat_in_squares(flips, note("squares of", pick<std::int64_t>({8, 16, 40, 128})));
    return keep(std::move(flips));
  }

  void draw_tables() {
    const auto values = [this](std::int64_t buckets) {
      const Dtype dtype = pick<Dtype>({Dtype::f32, Dtype::f64, Dtype::bf16});
      return keep(draw_numbers(choices_, {buckets, heads_}, dtype));
    };
    if (chance(0.3)) {
      const auto most = note("clipped at", pick<std::int64_t>({0, 1, 7, 40, 5000}));
      options.bias = options.bias + Bias::clipped(values(2 * most + 1));
    }
    if (chance(0.3)) {
      const bool both = chance(0.5);
      const auto buckets = note("T5", pick<std::int64_t>({4, 8, 32})), distance = pick<std::int64_t>({17, 128});
      options.bias = options.bias + Bias::t5(values(buckets), {both, distance});
    }
    const bool is_dot = options.score.kind() == Score::Kind::dot || options.score.kind() == Score::Kind::scaled_dot;
    if (chance(0.3) && is_dot) {
      const auto most = note("Shaw's to", pick<std::int64_t>({0, 1, 7, 40, 300}));
      const Dtype dtype = pick<Dtype>({Dtype::f32, Dtype::f64, Dtype::bf16});
      const double spread = 0.5 / std::sqrt(static_cast<double>(head_dim_));
      const TensorView table = keep(draw_numbers(choices_, {2 * most + 1, head_dim_}, dtype, spread));
      options.bias = options.bias + Bias::shaw(table);
    }
    // Positions must lie within the window.
    const std::int64_t longest = std::max(q_len_, k_len_);
    if (chance(0.3) && longest <= 300 && options.mask.align() != Align::bottom_right) {
      const auto width = note("window of width", pick<std::int64_t>({1, 4, 7}));
      const std::int64_t height = longest / width + 1;
      const TensorView table = values((2 * height - 1) * (2 * width - 1));
      options.bias = options.bias + Bias::swin(table, height, width);
    }
  }

  void draw_functions() {
    if (chance(0.15)) {
      const auto period = note("mask function of period", pick<std::int32_t>({2, 3, 7, 300}));
      options.mask = options.mask & Mask::function(mask_function([period](const Pair& at) {
                       return (at.key + 2 * at.query + at.head + at.batch) % period != 0;
                     }));
    }
    if (chance(0.15)) {
      notes_ += ", logit function";
      is_finite = !has_infinite_bias_;  // half of its signs change
      options.logit_function = logit_function([](auto logit, const Pair& at) {
        return at.head % 2 == 0 ? -logit : logit / (1 + std::abs(at.position - at.key));
      });
    }
  }

  // One id for each of the rows of every sequence: in runs, or scattered.
  TensorView draw_ids(const std::vector<std::int32_t>& offsets, std::int64_t length, bool scattered) {
    std::vector<std::int32_t> ids;
    const bool packed = !offsets.empty();
    const std::int64_t count = packed ? offsets.back() : batch_ * length;
    while (static_cast<std::int64_t>(ids.size()) < count) {
      const std::uint64_t run = scattered ? 1 : 1 + random_.below(static_cast<std::uint64_t>(length) / 2 + 1);
      ids.insert(ids.end(), run, static_cast<std::int32_t>(random_.below(3)) - 1);
    }
    ids.resize(static_cast<std::size_t>(count));
    const Tensor of_32 = packed ? Tensor::of({count}, ids) : Tensor::of({batch_, length}, ids);
    return keep(chance(0.5) ? of_32 : convert(of_32, Dtype::i64));
  }

  void draw_sinks() {
    if (!chance(0.2)) return;
    notes_ += ", sinks";
    Tensor sinks = draw_numbers(choices_, {heads_}, pick<Dtype>({Dtype::f32, Dtype::f64}), 3);
    if (chance(0.5)) sprinkle(random_, sinks, 0.5, {-kInfinity, -1e30, -1e4, 0.0, 20});
    options.sinks = keep(std::move(sinks));
  }

  void draw_bias() {
    for (int i = pick<int>({0, 0, 0, 1, 1, 2, 4}); i > 0; --i) {
      Dims shape = draw_broadcast("bias");
      const bool heads_last = shape.size() > 2 && chance(0.3);
      for (auto d = shape.size() - 2; heads_last && d < shape.size(); ++d) std::swap(shape[d - 1], shape[d]);
      if (heads_last) notes_ += " with heads last";
      Tensor bias = draw_numbers(choices_, shape, accumulation_);
      if (chance(0.3)) {
        sprinkle(random_, bias, pick<double>({0.1, 0.9}), {-kInfinity, -kInfinity, -1e4, 0.0});
        has_infinite_bias_ = true;
      }
      const TensorView view = keep(std::move(bias));
      options.bias = options.bias + Bias::view(heads_last ? view.transpose(-3, -1).transpose(-2, -1) : view);
    }
    for (int i = pick<int>({0, 0, 0, 0, 0, 0, 1, 1, 2}); i > 0; --i) {
      Dims shape = q.rank() == 4 && chance(0.5) ? Dims{batch_} : Dims{};
      shape.push_back(chance(0.8) ? heads_ : 1);
      notes_ += fmt::format(", ALiBi {}", to_string(shape));
      Tensor slopes = draw_numbers(choices_, shape, pick<Dtype>({Dtype::f32, Dtype::f32, Dtype::f64}), 0.02);
      if (chance(0.5)) sprinkle(random_, slopes, 0.4, {0.0, -0.0, 1});
      options.bias = options.bias + Bias::alibi(keep(std::move(slopes)));
    }
  }

  // NaN and infinities where nobody sees them.
  void draw_hidden() {
    if (paged_ || batch_ == 0 || k_len_ == 0 || q_len_ == 0 || !chance(0.3)) return;
    unseen = HiddenRows(q, k, options);
    const double number = note("hidden", pick<double>({kNan, kNan, kInfinity, -kInfinity}));
    unseen.put_into_queries(q, number);
    unseen.put_into_keys(k, number);
    unseen.put_into_keys(v, number);
  }

  // One NaN or infinity where somebody may see it.
  void draw_visible() {
    if (!chance(0.05)) return;
    const TensorView array = pick<TensorView>({q, k, v});
    if (array.element_count() == 0) return;
    // What infinities give after a projection depends on the order of its sums; beside a weight that is 0 in float and
    // not in double, on the type.
    const bool has_small_weights = options.logit_function || !options.bias.alibi_slopes().empty();
    const bool is_open = options.score.kind() == Score::Kind::bilinear || has_small_weights;
    const double number = note("seen", is_open ? kNan : pick<double>({kNan, kNan, kInfinity, -kInfinity}));
    is_finite = false;
    TensorView element = array;
    while (element.rank() > 0) element = element.select(0, up_to(element.size(0) - 1));
    convert(filled({}, number), MutableTensorView(const_cast<std::byte*>(element.bytes()), dtype_, Dims{}));
  }

  void draw_requests() {
    const bool statistics = chance(0.4);
    for (const OutputDescription& kind : attention_outputs()) {
      const bool is_drawn = kind.is_statistic ? statistics && chance(0.5) : chance(0.4);
      const bool is_second = kind.view == &AttentionExtras::top_weights;
      if (is_second ? requests.names.contains("top_keys") : is_drawn) requests.names.insert(kind.name);
    }
    if (packed_ && paged_) requests.names.erase("received");
    requests.top = pick<std::int64_t>({0, 1, 3, k_len_ + 2});
    requests.parts = {pick<std::int64_t>({1, 2, 5, 70}), pick<std::int64_t>({1, 3, 40})};
    requests.rows = pick<std::int64_t>({0, 1, 5});
  }

  Choices choices_;
  Random& random_;  // of values
  std::string notes_;
  Kept kept_;
  std::int64_t batch_, heads_, kv_heads_, q_len_, k_len_, head_dim_, value_dim_;
  bool packed_ = false;  // queries, and keys unless these are paged
  bool paged_ = false, has_infinite_bias_ = false;
  Dtype dtype_, accumulation_;
  double spread_ = 1, safe_scale_ = 1;
  std::vector<std::int32_t> q_offsets_, k_offsets_;
  std::vector<std::int64_t> page_lengths_;
};

// What replays a case, for the trace of a failure.
template <class Expect>
void expect_of(const std::string& name, const AttentionCase& drawn, Expect&& expect) {
  SCOPED_TRACE(fmt::format("{} on {}: {}", name, selected_target(), drawn.describe()));
  try {
    expect(drawn);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

template <class Expect>
void run_case(std::uint64_t seed, Expect&& expect) {
  // One case in sixteen may be large enough to cross blocks of keys in every way.
  const AttentionCase drawn(Choices(seed), seed % 16 == 0 ? 2e5 : 1e4);
  expect_of(fmt::format("QKV_GRID_SEED={}", seed), drawn, expect);
}

// Seeds first <= seed < first + count, dealt to the targets in turn.
template <class Expect>
void run_cases(std::uint64_t first, std::uint64_t count, Expect&& expect) {
#ifdef QKV_SANITIZED
  count /= 16;  // each takes ten times as long
#endif
  const std::vector<std::string> names = usable_targets();
  for (std::size_t t = 0; t < names.size(); ++t) {
    select_target(names[t]);
    for (std::uint64_t seed = first + t; seed < first + count && !::testing::Test::HasFailure(); seed += names.size()) {
      run_case(seed, expect);
    }
  }
  select_target("");
}

// The case that QKV_GRID_SEED names.
template <class Expect>
void replay_case(Expect&& expect) {
  const char* seed = std::getenv("QKV_GRID_SEED");
  if (seed == nullptr) GTEST_SKIP() << "QKV_GRID_SEED names no case";
  run_case(std::stoull(seed), expect);
}

}  // namespace qkv::testing
