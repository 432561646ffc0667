// What docs/semantics.md promises of bits, as relations: a random call, and the same in another form or with other
// company, have the same bits in every pass. Every option is crossed with every relation, on every target in turn. A
// failure names its seed; QKV_GRID_SEED=seed with --gtest_filter=*SameBits.Replay/RELATION runs that one again.
#include "attention/forward/attention_in_place.h"
#include "attention/relations.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/threads.h"

namespace qkv::testing::relations {
namespace {

// How often the relation was exercised: 0 where it does not apply.
using Relation = int (*)(Subject&);

// Whether the first sequence alone is as good as any: others draw other weights to drop.
std::int64_t any_sequence(Subject& subject) {
  return subject.call.has_dropout() ? 0 : subject.below(subject.call.batch());
}

bool has(const Mask& mask, MaskKind kind) {
  return std::ranges::find(mask.parts(), kind, &Mask::Part::kind) != mask.parts().end();
}

// Sequences one after the other and each by itself.
int each_alone(Subject& subject) {
  const Call& call = subject.call;
  const Outcome whole = subject.run(call, subject.some());
  int compared = 0;
  for (std::int64_t b = 0; b < (call.has_dropout() ? std::min<std::int64_t>(call.batch(), 1) : call.batch()); ++b) {
    if (!subject.is_forward() && call.query_length(b) == 0) continue;  // its gradients are 0, among others -0
    SCOPED_TRACE(fmt::format("sequence {}", b));
    compared += expect_same(sequence(call, whole, b), subject.run(alone(call, b), subject.some()));
  }
  return compared;
}

int packing(Subject& subject) { return subject.call.packed() ? each_alone(subject) : 0; }
int pages(Subject& subject) { return subject.call.paged() ? each_alone(subject) : 0; }
int padding_cropped(Subject& subject) {
  return has(subject.call.options.mask, MaskKind::lengths) ? each_alone(subject) : 0;
}

int permuted_batch(Subject& subject) {
  const Call& call = subject.call;
  if (!call.has_batch() || call.packed() || call.batch() < 2 || call.has_dropout()) return 0;
  const std::int64_t batch = call.batch(), turn = 1 + subject.below(batch - 1);
  Call other = call;
  const auto turned = [&](const TensorView& array) {
    if (array.size(0) != batch) return array;
    const MutableTensorView all = other.kept.keep(Tensor::uninitialized(array.shape(), array.dtype()));
    for (std::int64_t b = 0; b < batch; ++b) convert(array.select(0, (b + turn) % batch), all.select(0, b));
    return TensorView(all);
  };
  const auto of_rank = [&](int rank) {
    return [&, rank](const TensorView& array) { return array.rank() < rank ? array : turned(array); };
  };
  other.options = changed(call.options, {.pairs = of_rank(4),
                                         .sequences = of_rank(1),
                                         .query_ids = of_rank(2),
                                         .key_ids = of_rank(2),
                                         .slopes = of_rank(2),
                                         .pair = [=](Pair at) {
                                           at.batch = static_cast<std::int32_t>((at.batch + turn) % batch);
                                           return at;
                                         }});
  call.give(other, turned, [&](const TensorView& keys) { return call.paged() ? keys : turned(keys); });
  if (call.paged()) other.options.block_table = turned(call.options.block_table);
  const Outcome whole = subject.run(call, subject.some()), permuted = subject.run(other, subject.some());
  int compared = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    compared += expect_same(sequence(other, permuted, b), sequence(call, whole, (b + turn) % batch));
  }
  return compared;
}

// A caller's pool of one thread, the last task first.
void backwards(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks; index-- > 0;) task(context, index, 0);
}

int threads(Subject& subject) {
  Call one = subject.call, more = subject.call;
  one.options.threads = 1, more.options.threads = std::array{2, 3, 4, 7, 16}[subject.random.below(5)];
  const Outcome alone = subject.run(one, subject.some());
  int compared = expect_same(alone, subject.run(more, subject.some()));
  set_parallel_runner(backwards);
  compared += expect_same(alone, subject.run(more, subject.some()));
  set_parallel_runner(nullptr);
  const bool share = !subject.is_forward() || plan(more.q, more.k, more.v, more.options).threads > 1;
  return share ? compared : 0;
}

// What is asked for alone, beside everything else.
int optional_outputs(Subject& subject) {
  const Outcome all = subject.run(subject.call);
  int compared = expect_same(all, subject.run_alone(subject.call, nothing));
  for (const Output& output : all.outputs) {
    const auto is_it = [&](const std::string& name) { return name == output.name; };
    compared += expect_same(all, subject.run_alone(subject.call, is_it));
  }
  return compared;
}

// The output in place of the queries.
int in_place(Subject& subject) {
  const Call& call = subject.call;
  if (call.v.size(-1) != call.q.size(-1) || call.out_dtype != call.q.dtype()) return 0;
  Outcome own;
  const MutableTensorView rows = own.kept.keep(Tensor::copy(call.q));
  attention_in_place(rows, call.k, call.v, call.options);
  own.outputs.push_back({"output", Of::queries, rows});
  return expect_same(attend(call, nothing), own);
}

// Wider rows, dimensions in another order or walked backwards, of all arrays, outputs among them.
int strides(Subject& subject) {
  const Call& call = subject.call;
  Call other = call;
  const auto scatter = [&](const TensorView& array) {
    if (array.rank() < 2) return array;
    const MutableTensorView to =
        scattered(other.kept, array.shape(), array.dtype(), subject.random, /*backwards=*/true);
    convert(array, to);
    return TensorView(to);
  };
  // Those of pairs are read number by number, too: keys by queries, or every second one of these.
  const auto scatter_pairs = [&](const TensorView& array) {
    if (array.rank() < 2 || subject.below(2) == 0) return scatter(array);
    Dims memory = array.transpose(-2, -1).shape();
    memory.push_back(1 + subject.below(2));
    const MutableTensorView all = other.kept.keep(Tensor::zeros(memory, array.dtype()));
    const MutableTensorView to = all.select(array.rank(), 0).transpose(-2, -1);
    convert(array, to);
    return TensorView(to);
  };
  call.give(other, scatter, scatter);
  other.options = changed(call.options, {.pairs = scatter_pairs, .query_ids = scatter, .key_ids = scatter});
  other.scatters = &subject.random;
  return expect_same(subject.run(call, subject.some()), subject.run(other, subject.some()));
}

// Chunks of at least two queries, each at its position among the keys up to its own. Other masks than causal need all
// keys, at other positions.
int chunks_of_queries(Subject& subject) {
  if (subject.call.batch() == 0 || subject.call.has_dropout()) return 0;
  Call whole = alone(subject.call, subject.below(subject.call.batch()));
  Mask& mask = whole.options.mask;
  const Bias& bias = whole.options.bias;
  const std::int64_t q_len = whole.q.size(1), k_len = whole.k.size(1);
  const auto is_aligned = [](const Mask::Part& part) {
    return part.kind != MaskKind::function && description_of(part.kind).is_aligned;
  };
  const bool has_positions = std::ranges::any_of(mask.parts(), is_aligned) || !bias.tables().empty() ||
                             !bias.alibi_slopes().empty() || whole.options.logit_function;
  if (has_positions) mask = mask & Mask::causal(mask.align());  // a chunk ends with the key of its last query
  if (q_len < 4 || has(mask, MaskKind::prefix)) return 0;
  const std::int64_t first = subject.below(q_len - 3), last = first + 2 + subject.below(q_len - first - 2);
  const std::int64_t offset = mask.align() == Align::bottom_right ? k_len - q_len : 0;
  const std::int64_t end = has_positions ? offset + last : k_len;
  if (end < 0 || end > k_len) return 0;
  const auto queries = [&](const TensorView& array) { return array.slice(1, first, last); };
  const auto key_rows = [&](const TensorView& array) { return array.slice(1, 0, end); };
  Call chunk = whole;
  whole.give(chunk, queries, key_rows);
  const auto later = [=](Pair at) { return at.query += static_cast<std::int32_t>(first), at; };
  chunk.options = changed(whole.options,
                          {.pairs = [&](const TensorView& array) { return cut(cut(array, 2, first, last), 1, 0, end); },
                           .query_ids = [&](const TensorView& ids) { return cut(ids, 1, first, last); },
                           .key_ids = [&](const TensorView& ids) { return cut(ids, 1, 0, end); },
                           .pair = later,
                           .align = has_positions ? Align::bottom_right : mask.align()});
  const Outcome all = subject.run(whole, subject.some()), own = subject.run(chunk, subject.some());
  const auto pairs = [&](const TensorView& array) { return queries(array).slice(2, 0, end); };
  return expect_same(part(all, Of::queries, queries), own) + expect_same(part(all, Of::pairs, pairs), own);
}

// A head by itself; together with others of its keys it may share a block. (Tables have a column for each head.)
int one_head(Subject& subject) {
  if (subject.call.batch() == 0 || !subject.call.options.bias.tables().empty()) return 0;
  const Call group = alone(subject.call, any_sequence(subject));
  const std::int64_t h = group.has_dropout() ? 0 : subject.below(group.q.size(0)),
                     of_keys = group.q.size(0) / group.k.size(0);
  const auto head = [h](const TensorView& array) { return array.slice(0, h, h + 1); };
  const auto key_head = [&](const TensorView& array) { return array.slice(0, h / of_keys, h / of_keys + 1); };
  Call one = group;
  group.give(one, head, key_head);
  one.options = changed(group.options, {.pairs = [h](const TensorView& array) { return cut(array, 3, h, h + 1); },
                                        .slopes = [h](const TensorView& slopes) { return cut(slopes, 1, h, h + 1); },
                                        .sinks = [h](const TensorView& sinks) { return sinks.slice(0, h, h + 1); },
                                        .pair = [h](Pair at) { return at.head += static_cast<std::int32_t>(h), at; }});
  const Outcome all = subject.run(group, subject.some()), own = subject.run(one, subject.some());
  return expect_same(part(all, Of::queries, head), own) + expect_same(part(all, Of::pairs, head), own);
}

// All masks as an array of the pairs that they let through, compiled or not, or as a function.
int mask_as_array(Subject& subject) {
  if (subject.call.batch() == 0) return 0;
  const Call one = alone(subject.call, any_sequence(subject));
  // Chunks of a single query begin at the first key that an interval shows, and gradients without keys are never -0.
  if (one.q.size(1) < 2 || (!subject.is_forward() && std::signbit(one.options.scale.value_or(1)))) return 0;
  const Tensor visible = visible_pairs(one);
  Mask mask = Mask::boolean(visible);
  if (subject.random.below(3) == 0) mask = mask.compiled();
  if (subject.random.below(3) == 0) {
    mask = Mask::function(
        mask_function([&](const Pair& at) { return visible.view().at<bool>({at.head, at.query, at.key}); }));
  }
  Call other = one;
  other.options.mask = mask & Mask::window(-1, -1, one.options.mask.align());
  return expect_same(subject.run(one, subject.some()), subject.run(other, subject.some()));
}

int compiled_mask(Subject& subject) {
  if (!has(subject.call.options.mask, MaskKind::boolean) && !has(subject.call.options.mask, MaskKind::documents))
    return 0;
  Call plain_mask = subject.call, compiled = subject.call;
  plain_mask.options = changed(subject.call.options, {});
  compiled.options.mask = compiled.options.mask.compiled();
  const Outcome wanted = subject.run(plain_mask, subject.some());
  const int compared = expect_same(wanted, subject.run(compiled, subject.some()));
  return compared + expect_same(wanted, subject.run(compiled, subject.some()));  // which keeps what the first one made
}

const double kOdd[] = {kNan, kInfinity, -kInfinity, 1e30, -3e38, 0x1p-130, 7};

// Whatever keys and values hold that no query sees, and queries that see no key.
int hidden_numbers(Subject& subject) {
  const Call& call = subject.call;
  if (call.paged() || call.q.element_count() == 0 || call.k.element_count() == 0) return 0;
  const HiddenRows hidden(call.q, call.k, call.options);
  const double number = kOdd[subject.random.below(std::size(kOdd))];
  Call other = call;
  const auto spoilt = [&](void (HiddenRows::*put)(const TensorView&, double) const) {
    return [&, put](const TensorView& array) {
      const TensorView copy = other.kept.keep(Tensor::copy(array));
      (hidden.*put)(copy, number);
      return copy;
    };
  };
  call.give(other, spoilt(&HiddenRows::put_into_queries), spoilt(&HiddenRows::put_into_keys));
  const int compared = expect_same(subject.run(call, subject.some()), subject.run(other, subject.some()));
  return hidden.empty() ? 0 : compared;
}

// Whatever a bias holds where the masks hide the pair.
int hidden_biases(Subject& subject) {
  if (subject.call.batch() == 0 || subject.call.options.bias.views().size() == 4) return 0;  // which are the most
  const Call one = alone(subject.call, any_sequence(subject));
  const Tensor visible = visible_pairs(one), zero = Tensor::zeros(visible.shape(), one.wide());
  const double number = kOdd[subject.random.below(std::size(kOdd))];
  Tensor odd = Tensor::zeros(visible.shape(), Dtype::f64);
  for (std::int64_t i = 0; i < odd.element_count(); ++i) odd.data<double>()[i] = visible.data<bool>()[i] ? 0 : number;
  odd = convert(odd, one.wide());
  Call plain_bias = one, other = one;
  plain_bias.options.bias = one.options.bias + Bias::view(zero);
  other.options.bias = one.options.bias + Bias::view(odd);
  return expect_same(subject.run(plain_bias, subject.some()), subject.run(other, subject.some()));
}

// One odd row of an array reaches those who see it: of all other queries each bit stays, and of gradients of keys that
// none of these see.
int one_odd_row(Subject& subject) {
  if (subject.call.batch() == 0) return 0;
  const Call one = alone(subject.call, any_sequence(subject));
  const std::int64_t q_len = one.q.size(1), k_len = one.k.size(1), group = one.q.size(0) / one.k.size(0);
  if (q_len == 0 || k_len == 0) return 0;
  const Tensor visible = visible_pairs(one);
  const auto sees = [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    return visible.data<bool>()[(h * q_len + i) * k_len + j];
  };
  Call other = one;
  TensorView Call::* const arrays[] = {&Call::q, &Call::k, &Call::v, &Call::grad_out, &Call::tq, &Call::tk, &Call::tv};
  TensorView Call::* const array = arrays[subject.random.below(subject.is_forward() ? 3 : one.tq ? 7 : 4)];
  const std::int64_t head = subject.below((one.*array).size(0)), row = subject.below((one.*array).size(1));
  const MutableTensorView odd = other.kept.keep(Tensor::copy(one.*array));
  convert(filled({odd.size(2)}, kOdd[subject.random.below(std::size(kOdd))]), odd.select(0, head).select(0, row));
  other.*array = odd;
  const bool of_query = std::ranges::count(Call::kOfQueries, array) > 0;
  const auto is_reached = [&](std::int64_t h, std::int64_t i) {
    return of_query ? h == head && i == row : h / group == head && sees(h, i, row);
  };
  const auto is_key_reached = [&](std::int64_t g, std::int64_t j) {
    for (std::int64_t at = 0; at < group * q_len; ++at) {
      const std::int64_t h = g * group + at / q_len, i = at % q_len;
      if (is_reached(h, i) && sees(h, i, j)) return true;
    }
    return false;
  };
  // Rows that are reached become 0 in both.
  const auto others = [&](const Outcome& outcome) {
    Outcome kept{.outputs = {}, .kept = outcome.kept};
    for (const auto& [name, of, values] : outcome.outputs) {
      if (of == Of::all || (of == Of::keys && subject.is_forward())) continue;  // sums of reached weights, too
      const MutableTensorView left = kept.kept.keep(Tensor::copy(values));
      for (std::int64_t h = 0; h < left.size(0); ++h) {
        for (std::int64_t i = 0; i < left.size(1); ++i) {
          if (of == Of::keys ? !is_key_reached(h, i) : !is_reached(h, i)) continue;
          const MutableTensorView row_of_it = left.select(0, h).select(0, i);
          convert(filled(row_of_it.shape(), 0), row_of_it);
        }
      }
      kept.outputs.push_back({name, of, left});
    }
    return kept;
  };
  return expect_same(others(subject.run(one, subject.some())), others(subject.run(other, subject.some())));
}

// Numbers of 16 bits give the bits of the same ones in f32, but where a target multiplies them in its own way.
int sixteen_bits(Subject& subject) {
  const Call& narrow = subject.call;
  const std::string target(selected_target());
  const bool has_own = target == "amx" || (target == "avx512-bf16" && narrow.q.dtype() == Dtype::bf16);
  if (size_of(narrow.q.dtype()) != 2 || has_own || narrow.options.precision == Precision::reduced) return 0;
  Call wide = narrow;
  for (TensorView Call::* array : {&Call::q, &Call::k, &Call::v}) {
    wide.*array = wide.kept.keep(convert(narrow.*array, Dtype::f32));
  }
  wide.out_dtype = Dtype::f32;
  Outcome wanted = attend(wide, subject.some());
  wanted.outputs[0].values = wanted.kept.keep(convert(wanted.outputs[0].values, narrow.out_dtype));
  return expect_same(wanted, attend(narrow, subject.some()));
}

// empty_rows = nan: NaN over the sequence's keys where the log-sum-exp is -infinity, every other bit as without it.
int empty_rows(Subject& subject) {
  Call call = subject.call;
  if (call.batch() == 0) return 0;
  call.options.empty_rows = EmptyRows::zero;
  const Call one = alone(call, any_sequence(subject));
  Call other = one;
  other.options.empty_rows = EmptyRows::nan;
  Outcome wanted = attend(one);
  const std::vector<double> sums = values(wanted.outputs[1].values);
  const std::int64_t q_len = one.q.size(1);
  int empty = 0;
  for (const int at : {0, 2}) {  // output and weights
    const MutableTensorView rows = wanted.kept.keep(Tensor::copy(wanted.outputs[at].values));
    wanted.outputs[at].values = rows;
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const auto h = static_cast<std::int64_t>(row) / q_len, i = static_cast<std::int64_t>(row) % q_len;
      if (sums[row] != -kInfinity) continue;
      convert(filled({rows.size(2)}, kNan), rows.select(0, h).select(0, i)), ++empty;
    }
  }
  const int compared = expect_same(wanted, attend(other)) + expect_same(wanted, attend(other, nothing));
  return empty > 0 ? compared : 0;
}

// Keys that come to a cache in pieces, in any order of sequences: first those of all up to some one, then each sequence
// goes on from a parent.
int kept_cache(Subject& subject) {
  Call call = subject.call;
  const Mask& mask = call.options.mask;
  if (call.packed() || call.paged() || !call.has_batch() || call.batch() == 0) return 0;
  // A cache names its own alignment and lengths; positions of Swin's tables would lie outside.
  if (mask.align() == Align::top_left || has(mask, MaskKind::lengths)) return 0;
  const auto& tables = call.options.bias.tables();
  const auto is_swin = [](const RelativeTable& table) { return table.kind() == RelativeTable::Kind::swin; };
  if (std::any_of(tables.begin(), tables.end(), is_swin)) return 0;
  const std::int64_t batch = call.batch(), k_len = call.k.size(2), common = subject.below(k_len + 1);
  KeyValueCache cache({.batch = batch,
                       .kv_heads = call.k.size(1),
                       .head_dim = call.k.size(3),
                       .value_dim = call.v.size(3),
                       .dtype = call.k.dtype(),
                       .page_rows = 1 + subject.below(20)});
  const auto append = [&](std::int64_t begin, std::int64_t end) {
    cache.append(call.k.slice(2, begin, end), call.v.slice(2, begin, end));
  };
  std::vector<std::int64_t> parents;
  for (std::int64_t b = 0; b < batch; ++b) parents.push_back(subject.below(batch));
  append(0, common);
  cache.reorder(parents);
  for (std::int64_t begin = common, end; begin < k_len; begin = end) {
    end = std::min(k_len, begin + 1 + subject.below(40));
    append(begin, end);
  }
  for (TensorView Call::* array : {&Call::k, &Call::v}) {
    const MutableTensorView chosen = call.kept.keep(Tensor::copy(call.*array));
    for (std::int64_t b = 0; b < batch; ++b) {
      const TensorView parent = (call.*array).select(0, parents[static_cast<std::size_t>(b)]);
      convert(parent.slice(1, 0, common), chosen.select(0, b).slice(1, 0, common));
    }
    call.*array = chosen;
  }
  Outcome cached;
  const MutableTensorView out = place(cached, call, "output", Of::queries, call.shape_of_out(), call.out_dtype);
  attention(call.q, cache, out, call.options);
  call.options.mask = mask & Mask::window(-1, -1, Align::bottom_right);
  return expect_same(attend(call, subject.some()), cached);
}

struct Row {
  const char* name;
  Relation relation;
  // By pass: of a hundred cases, so many exercise it (0: it says nothing of this pass); whether it is asked of large
  // cases, too.
  std::array<int, 3> least;
  std::array<bool, 3> is_large = {};
};

const Row kRows[] = {{"Threads", threads, {30, 30, 20}, {true, true, true}},
                     {"Packing", packing, {12, 8, 4}, {false, true}},
                     {"Pages", pages, {8}},
                     {"PaddingCropped", padding_cropped, {12, 8, 4}},
                     {"EachAlone", each_alone, {60}, {true}},
                     {"PermutedBatch", permuted_batch, {15, 10, 5}},
                     {"ChunksOfQueries", chunks_of_queries, {5, 0, 2}, {true}},
                     {"OneHead", one_head, {30, 20, 10}, {true}},
                     {"Strides", strides, {90, 50, 20}, {true, true, true}},
                     {"OptionalOutputs", optional_outputs, {90, 50, 20}},
                     {"InPlace", in_place, {30}, {true}},
                     {"MaskAsArray", mask_as_array, {30, 20, 8}, {true}},
                     {"CompiledMask", compiled_mask, {30, 20}},
                     {"HiddenNumbers", hidden_numbers, {20, 15, 4}},
                     {"HiddenBiases", hidden_biases, {50, 30, 15}},
                     {"OneOddRow", one_odd_row, {30, 20, 8}},
                     {"SixteenBits", sixteen_bits, {8}, {true}},
                     {"EmptyRows", empty_rows, {20}},
                     {"KeptCache", kept_cache, {10}}};

struct Asked {
  Row row;
  Pass pass;
  std::uint64_t number;
  int least() const { return row.least[static_cast<std::size_t>(pass)]; }
  std::string name() const {
    constexpr const char* kPasses[] = {"Forward", "Backward", "Tangents"};
    return std::string(kPasses[static_cast<std::size_t>(pass)]) + row.name;
  }
};

std::vector<Asked> all_asked() {
  std::vector<Asked> all;
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::tangents}) {
    for (const Row& row : kRows) {
      if (const Asked asked{row, pass, all.size()}; asked.least() > 0) all.push_back(asked);
    }
  }
  return all;
}

// How often the case exercises the relation. Every third one multiplies with reduced precision, where there is such a
// kernel.
int same_bits(const AttentionCase& drawn, const Asked& asked) {
  // These have no derivative.
  if (asked.pass == Pass::backward && (drawn.options.logit_function || drawn.paged())) return 0;
  Subject subject{Call(drawn), asked.pass, Random(drawn.seed)};
  if (asked.pass == Pass::tangents && !subject.call.draw_tangents(drawn)) return 0;
  if (asked.pass == Pass::forward && drawn.seed % 3 == 0) subject.call.options.precision = Precision::reduced;
  return asked.row.relation(subject);
}

class SameBits : public ::testing::TestWithParam<Asked> {
 protected:
  void TearDown() override { select_target(""); }
  void expect(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t exercised = 0;
    run_cases(first + 10'000 * GetParam().number, count,
              [&](const AttentionCase& drawn) { exercised += same_bits(drawn, GetParam()) > 0 ? 1 : 0; });
#ifndef QKV_SANITIZED  // where a sixteenth of the cases are too few for a share
    EXPECT_GE(100 * exercised, count * static_cast<std::uint64_t>(GetParam().least()));
#endif
  }
};

TEST_P(SameBits, RandomCases) { expect(7'000'000, GetParam().pass == Pass::tangents ? 150 : 300); }
TEST_P(SameBits, RandomCasesSlow) { expect(8'000'000, 5'000); }
TEST_P(SameBits, Replay) {
  replay_case([](const AttentionCase& drawn) { same_bits(drawn, GetParam()); });
}

// Several blocks of queries, chunks of keys and more of both than a thread keeps at a time; few queries over many keys;
// sizes beyond those of tiles. Each on one of the targets.
const CaseSizes kLarge[] = {{1, 8, 1, 100, 1300, 256, 256}, {1, 1, 8, 60, 1300, 128, 128},
                            {1, 1, 1, 50, 70, 1024, 1000},  {1, 2, 5, 2, 8200, 16, 16},
                            {1, 2, 1, 53, 4200, 32, 24},    {1, 1, 1, 2, 6000, 16, 1000},
                            {1, 1, 2, 400, 1000, 80, 80},   {3, 2, 2, 150, 150, 24, 24},
                            {5, 1, 2, 60, 1140, 16, 24},    {1, 1, 8, 1, 9000, 64, 48}};

TEST_P(SameBits, LargeCases) {
  if (!GetParam().row.is_large[static_cast<std::size_t>(GetParam().pass)])
    GTEST_SKIP() << "the others say nothing of sizes";
  const std::vector<std::string> targets = usable_targets();
  for (std::uint64_t n = 0; n < std::size(kLarge); ++n) {
    select_target(targets[(n + GetParam().number) % targets.size()]);
    const AttentionCase drawn(Choices(100 * GetParam().number + n), kLarge[n]);
    expect_of(fmt::format("large case {}", n), drawn, [](const AttentionCase& large) { same_bits(large, GetParam()); });
  }
}

INSTANTIATE_TEST_SUITE_P(Relation, SameBits, ::testing::ValuesIn(all_asked()),
                         [](const auto& of) { return of.param.name(); });

}  // namespace
}  // namespace qkv::testing::relations
