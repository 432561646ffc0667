// qkv attend: attention over arrays in files. Everything is read and checked first, computed as a whole, then written.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "qkv/attention.h"
#include "qkv/attention_backward.h"
#include "qkv/attention_jvp.h"
#include "qkv/commands.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/named_files.h"
#include "qkv/options.h"
#include "qkv/program.h"
#include "qkv/signals.h"
#include "qkv/table_options.h"
#include "qkv/verify_attention.h"

namespace qkv::app {
namespace {

struct Request {
  NamedFile query{"--query"};
  NamedFile key{"--key"};
  NamedFile value{"--value"};
  NamedFile mask{"--mask"};
  NamedFile lengths{"--lengths"};
  NamedFile documents{"--documents"};
  NamedFile documents_key{"--documents-key"};
  NamedFile sinks{"--sinks"};
  NamedFile bias{"--bias"};
  NamedFile alibi{"--alibi"};
  TableOptions tables{};
  NamedFile offsets_query{"--offsets-query"};
  NamedFile offsets_key{"--offsets-key"};
  NamedFile block_table{"--block-table"};
  NamedFile out{"--out"};
  NamedFile weights{"--weights"};
  NamedFile logits{"--logits"};
  NamedFile log_sum_exp{"--log-sum-exp"};
  NamedFile row_maximum{"--row-maximum"};
  NamedFile entropy{"--entropy"};
  NamedFile top_keys{"--top-keys"};
  NamedFile top_weights{"--top-weights"};
  NamedFile received{"--received"};
  NamedFile block_weights{"--block-weights"};
  std::int64_t top = 8;
  std::int64_t blocks = 64;
  std::int64_t verify = 0;  // rows
  NamedFile grad_out{"--grad-out"};
  NamedFile grad_query{"--grad-query"};
  NamedFile grad_key{"--grad-key"};
  NamedFile grad_value{"--grad-value"};
  NamedFile grad_alibi{"--grad-alibi"};
  NamedFile grad_sinks{"--grad-sinks"};
  NamedFile grad_bias{"--grad-bias"};
  NamedFile grad_score_w_query{"--grad-score-w-query"};
  NamedFile grad_score_w_key{"--grad-score-w-key"};
  NamedFile grad_score_v{"--grad-score-v"};
  NamedFile grad_score_w{"--grad-score-w"};
  NamedFile tangent_query{"--tangent-query"};
  NamedFile tangent_key{"--tangent-key"};
  NamedFile tangent_value{"--tangent-value"};
  NamedFile tangent_out{"--tangent-out"};
  std::optional<Align> causal{};
  Mask window{};
  ScoreOptions score{};
  std::optional<double> scale{};
  double soft_cap = 0;
  Precision precision = Precision::exact;
  Dropout dropout{};
  std::optional<Dtype> dtype{};

  std::vector<NamedFile> inputs() const {
    return {query,
            key,
            value,
            mask,
            lengths,
            documents,
            documents_key,
            sinks,
            bias,
            alibi,
            tables.clipped,
            tables.t5,
            tables.swin,
            tables.shaw,
            offsets_query,
            offsets_key,
            block_table,
            grad_out,
            tangent_query,
            tangent_key,
            tangent_value,
            {"--score-w-query", score.w_query},
            {"--score-w-key", score.w_key},
            {"--score-v", score.v},
            {"--score-w", score.w}};
  }
  std::vector<NamedFile> outputs() const {
    return {out,
            weights,
            logits,
            log_sum_exp,
            row_maximum,
            entropy,
            top_keys,
            top_weights,
            received,
            block_weights,
            grad_query,
            grad_key,
            grad_value,
            grad_bias,
            grad_alibi,
            grad_sinks,
            tables.grad_clipped,
            tables.grad_t5,
            tables.grad_swin,
            tables.grad_shaw,
            grad_score_w_query,
            grad_score_w_key,
            grad_score_v,
            grad_score_w,
            tangent_out};
  }
};

Tensor read(const NamedFile& file) {
  check_interruption();
  return file.given() ? read_array(file.path) : Tensor();
}

Tensor read_as(const NamedFile& file, Dtype dtype) {
  check_interruption();
  return file.given() ? read_parameter(file.option, file.path, dtype) : Tensor();
}

// Query, key or value: in its own type, which must then be the query's, or in the type that was asked for.
Tensor read_vectors(const NamedFile& file, std::optional<Dtype> dtype) {
  Tensor array = read(file);
  if (array.rank() < 2) {
    throw std::invalid_argument(
        fmt::format("{} {} has shape {}; it must be [..., heads, length, size] or [length, size]", file.option,
                    file.path, to_string(array.shape())));
  }
  if (dtype) return array.dtype() == *dtype ? std::move(array) : convert(array, *dtype);
  if (!is_floating(array.dtype())) {
    throw std::invalid_argument(fmt::format("{} {} holds {}; it must hold a floating type, or --dtype name one",
                                            file.option, file.path, name_of(array.dtype())));
  }
  return array;
}

void require_type_of_query(const Tensor& query, const Tensor& array, const NamedFile& file) {
  if (array.dtype() == query.dtype()) return;
  throw std::invalid_argument(
      fmt::format("{} {} holds {}, the queries are {}; both must have one type, or --dtype name it", file.option,
                  file.path, name_of(array.dtype()), name_of(query.dtype())));
}

// Everything that the computation borrows.
struct Inputs {
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor mask;
  Tensor lengths;
  Tensor documents;
  Tensor documents_key;
  Tensor sinks;
  Tensor bias;
  Tensor alibi;
  Tables tables;
  Tensor offsets_query;
  Tensor offsets_key;
  Tensor block_table;
  Tensor grad_out;
  Tensor tangent_query;
  Tensor tangent_key;
  Tensor tangent_value;
  ScoreParameters score;
};

Inputs read_inputs(const Request& request) {
  Inputs inputs;
  inputs.query = read_vectors(request.query, request.dtype);
  inputs.key = read_vectors(request.key, request.dtype);
  inputs.value = read_vectors(request.value, request.dtype);
  require_type_of_query(inputs.query, inputs.key, request.key);
  require_type_of_query(inputs.query, inputs.value, request.value);
  const Dtype accumulation = accumulation_of(inputs.query.dtype());
  inputs.mask = read(request.mask);
  inputs.lengths = read(request.lengths);
  inputs.documents = read(request.documents);
  inputs.documents_key = read(request.documents_key);
  inputs.sinks = read_as(request.sinks, accumulation);
  inputs.bias = read_as(request.bias, accumulation);
  inputs.alibi = read_as(request.alibi, accumulation);
  inputs.tables = read_tables(request.tables, accumulation);
  inputs.offsets_query = read(request.offsets_query);
  inputs.offsets_key = read(request.offsets_key);
  inputs.block_table = read(request.block_table);
  inputs.grad_out = read_as(request.grad_out, accumulation);
  inputs.tangent_query = read_as(request.tangent_query, accumulation);
  inputs.tangent_key = read_as(request.tangent_key, accumulation);
  inputs.tangent_value = read_as(request.tangent_value, accumulation);
  inputs.score = read_score_parameters(request.score, accumulation);
  return inputs;
}

AttentionOptions attention_options(const Request& request, const Inputs& inputs) {
  AttentionOptions options{.mask = request.window,
                           .bias = {},
                           .scale = request.scale,
                           .soft_cap = request.soft_cap,
                           .score = inputs.score.score(),
                           .precision = request.precision,
                           .dropout = request.dropout,
                           .offsets_query = {},
                           .offsets_key = {},
                           .block_table = {},
                           .stop = interruption()};
  if (request.causal) options.mask = options.mask & Mask::causal(*request.causal);
  if (request.lengths.given()) options.mask = options.mask & Mask::lengths(inputs.lengths);
  if (request.documents.given()) {
    const Tensor& of_keys = request.documents_key.given() ? inputs.documents_key : inputs.documents;
    options.mask = options.mask & Mask::documents(inputs.documents, of_keys);
  }
  if (request.sinks.given()) options.sinks = inputs.sinks;
  if (request.mask.given()) options.mask = options.mask & Mask::boolean(inputs.mask);
  if (request.bias.given()) options.bias = Bias::view(inputs.bias);
  if (request.alibi.given()) options.bias = options.bias + Bias::alibi(inputs.alibi);
  options.bias = options.bias + inputs.tables.bias(request.tables);
  if (request.offsets_query.given()) options.offsets_query = inputs.offsets_query;
  if (request.offsets_key.given()) options.offsets_key = inputs.offsets_key;
  if (request.block_table.given()) options.block_table = inputs.block_table;
  return options;
}

// The largest of some lengths, none above `capacity`.
std::int64_t longest_of(const Tensor& lengths, std::int64_t capacity) {
  const Tensor counts = convert(lengths, Dtype::i64);
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < counts.element_count(); ++i) {
    longest = std::clamp(counts.data<std::int64_t>()[i], longest, capacity);
  }
  return longest;
}

// The length of a row of weights: all keys, or those of the longest sequence. Offsets, tables and lengths that break
// the rules only need a bounded answer here; attention() refuses them.
std::int64_t row_length(const Request& request, const Inputs& inputs) {
  if (request.block_table.given()) {
    if (inputs.block_table.rank() != 2 || inputs.key.rank() != 4) return 0;
    const std::int64_t blocks = std::min(inputs.block_table.size(1), inputs.block_table.element_count());
    const std::int64_t capacity = blocks * inputs.key.size(1);
    return request.lengths.given() ? longest_of(inputs.lengths, capacity) : capacity;
  }
  if (!request.offsets_key.given()) return inputs.key.size(-2);
  if (inputs.offsets_key.dtype() != Dtype::i32 && inputs.offsets_key.dtype() != Dtype::i64) return 0;
  const Tensor offsets = convert(inputs.offsets_key, Dtype::i64);
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i + 1 < offsets.element_count(); ++i) {
    const std::int64_t begin = std::clamp<std::int64_t>(offsets.data<std::int64_t>()[i], 0, inputs.key.size(0));
    const std::int64_t end = std::clamp<std::int64_t>(offsets.data<std::int64_t>()[i + 1], 0, inputs.key.size(0));
    longest = std::max(longest, end - begin);
  }
  return longest;
}

// `place` makes room for what a file was named for.
template <class Place>
ScoreGradients place_score_gradients(const Request& request, const Inputs& inputs, const Place& place) {
  const NamedFile& w = request.score.w.empty() ? request.grad_score_w_query : request.grad_score_w;
  return {.w_query = place(w, inputs.score.w_query.shape()),
          .w_key = place(request.grad_score_w_key, inputs.score.w_key.shape()),
          .v = place(request.grad_score_v, inputs.score.v.shape())};
}

AttentionTangents tangents_of(const Request& request, const Inputs& inputs) {
  AttentionTangents tangents;
  if (request.tangent_query.given()) tangents.query = inputs.tangent_query;
  if (request.tangent_key.given()) tangents.key = inputs.tangent_key;
  if (request.tangent_value.given()) tangents.value = inputs.tangent_value;
  return tangents;
}

void attend(const Request& request) {
  check_outputs(request.inputs(), request.outputs());
  check_score_options(request.score);
  const Inputs inputs = read_inputs(request);
  const Dtype accumulation = accumulation_of(inputs.query.dtype());

  Dims row_shape;  // of log-sum-exp: the query's without its last dimension
  for (int i = 0; i + 1 < inputs.query.rank(); ++i) row_shape.push_back(inputs.query.size(i));
  const auto rows_of = [&](std::int64_t length) {
    Dims shape = row_shape;
    shape.push_back(length);
    return shape;
  };
  std::vector<std::pair<std::string, Tensor>> results;
  results.reserve(request.outputs().size());
  const auto place_as = [&](const NamedFile& file, const Dims& shape, Dtype dtype) -> MutableTensorView {
    if (!file.given()) return {};
    return results.emplace_back(file.path, Tensor::uninitialized(shape, dtype)).second;
  };
  const auto place = [&](const NamedFile& file, const Dims& shape) { return place_as(file, shape, accumulation); };
  const MutableTensorView out = place(request.out, rows_of(inputs.value.size(-1)));
  AttentionExtras extras;
  extras.weights = place(request.weights, rows_of(row_length(request, inputs)));
  extras.logits = place(request.logits, rows_of(row_length(request, inputs)));
  extras.log_sum_exp = place(request.log_sum_exp, row_shape);
  extras.row_maximum = place(request.row_maximum, row_shape);
  extras.entropy = place(request.entropy, row_shape);
  extras.top_keys = place_as(request.top_keys, rows_of(request.top), Dtype::i64);
  extras.top_weights = place(request.top_weights, rows_of(request.top));
  const bool packed = request.offsets_query.given();
  Dims key_shape = row_shape, block_shape = row_shape;  // heads are the query's
  if (packed) {
    key_shape[0] = inputs.key.size(0);
    block_shape[0] = std::max<std::int64_t>(inputs.offsets_query.element_count() - 1, 0);
    block_shape.push_back(request.blocks);
  } else {
    key_shape[key_shape.size() - 1] = row_length(request, inputs);
    block_shape[block_shape.size() - 1] = request.blocks;
  }
  block_shape.push_back(request.blocks);
  extras.received = place(request.received, key_shape);
  extras.block_weights = place(request.block_weights, block_shape);
  AttentionGradients gradients{.query = place(request.grad_query, inputs.query.shape()),
                               .key = place(request.grad_key, inputs.key.shape()),
                               .value = place(request.grad_value, inputs.value.shape()),
                               .score = place_score_gradients(request, inputs, place)};
  if (request.bias.given()) gradients.bias = {place(request.grad_bias, inputs.bias.shape())};
  for (const auto& [table, file] : inputs.tables.gradients(request.tables)) {
    gradients.tables.push_back(place(file, table->shape()));
  }
  if (request.grad_alibi.given()) gradients.alibi_slopes = {place(request.grad_alibi, inputs.alibi.shape())};
  gradients.sinks = place(request.grad_sinks, inputs.sinks.shape());
  const AttentionOutputTangents moved{.out = place(request.tangent_out, out.shape())};
  Tensor log_sum_exp;  // for the derivatives
  if ((request.grad_out.given() || moved.out) && !extras.log_sum_exp) {
    log_sum_exp = Tensor::uninitialized(row_shape, accumulation);
    extras.log_sum_exp = log_sum_exp;
  }
  const AttentionOptions options = attention_options(request, inputs);
  attention(inputs.query, inputs.key, inputs.value, out, options, extras);
  if (request.grad_out.given()) {
    attention_backward(inputs.query, inputs.key, inputs.value, out, extras.log_sum_exp, inputs.grad_out, options,
                       gradients);
  }
  if (moved.out) {
    attention_jvp(inputs.query, inputs.key, inputs.value, out, extras.log_sum_exp, tangents_of(request, inputs),
                  options, moved);
  }
  const AttentionReceipt receipt =
      verify_attention(inputs.query, inputs.key, inputs.value, out, options, request.verify);
  for (const auto& [path, array] : results) write_npy(path, array);
  if (request.verify > 0) {
    fmt::print("{} rows computed once more in double precision: worst error {:.3g} beside values up to {:.3g}\n",
               receipt.rows, receipt.worst_error, receipt.largest_value);
  }
}

}  // namespace

void add_attend(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("attend", "Attend over arrays in files");
  command.footer(
      "Arrays: .npy, .csv, .json or FILE.safetensors:TENSOR; what is written is .npy, f32 (f64 for f64).\n"
      "  query [..., heads, q_len, head_dim], key [..., kv_heads, k_len, head_dim], value [..., kv_heads, k_len, "
      "value_dim]\n"
      "  packed, with both --offsets: [tokens, heads, size]; sequence b has the rows offsets[b] <= row < offsets[b + "
      "1]\n"
      "  paged, with --block-table: key and value [pages, rows, kv_heads, size]; queries padded, or packed by "
      "--offsets-query\n"
      "  qkv attend --query q.npy --key k.npy --value v.npy --causal bottom-right --out o.npy");
  const auto request = std::make_shared<Request>();
  const auto add = [&](NamedFile& file, const char* help) { return add_file(command, file.option, file.path, help); };
  add(request->query, "queries")->required();
  add(request->key, "keys")->required();
  add(request->value, "values")->required();
  add(request->out, "the output to write, [..., heads, q_len, value_dim]")->required();
  add(request->weights, "the weights to write, [..., heads, q_len, k_len]");
  add(request->logits, "the logits to write, -inf where masked, [..., heads, q_len, k_len]");
  add(request->log_sum_exp, "the log-sum-exp to write, [..., heads, q_len]");
  add(request->row_maximum, "each row's largest logit to write, [..., heads, q_len]");
  add(request->entropy, "the entropy of each row of weights to write, in nats, [..., heads, q_len]");
  CLI::Option* top_keys =
      add(request->top_keys, "each row's keys of largest weight to write, i64 [..., heads, q_len, n]");
  CLI::Option* top_weights = add(request->top_weights, "their weights to write, [..., heads, q_len, n]");
  top_keys->needs(top_weights);
  top_weights->needs(top_keys);
  command.add_option("--top", request->top, "how many keys that is (default 8)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->type_name("N");
  add(request->received, "how much weight each key received to write, [..., heads, k_len]");
  add(request->block_weights, "averages of the weights over blocks to write, [..., heads, n, n]");
  command.add_option("--blocks", request->blocks, "how many blocks along queries and along keys (default 64)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}))
      ->type_name("N");
  command.add_option("--verify", request->verify, "compute N rows once more in double precision, and print the error")
      ->check(whole_number(1, std::int64_t{1} << 30))
      ->type_name("N");
  CLI::Option* grad_out = add(request->grad_out, "gradient of the output, of its shape");
  add(request->grad_query, "the gradient of the queries to write")->needs(grad_out);
  add(request->grad_key, "the gradient of the keys to write")->needs(grad_out);
  add(request->grad_value, "the gradient of the values to write")->needs(grad_out);
  CLI::Option* grad_alibi = add(request->grad_alibi, "the gradient of the slopes to write")->needs(grad_out);
  CLI::Option* grad_sinks = add(request->grad_sinks, "the gradient of the sinks to write")->needs(grad_out);
  CLI::Option* grad_bias = add(request->grad_bias, "the gradient of --bias to write, of its shape")->needs(grad_out);
  CLI::Option* tangent_out =
      add(request->tangent_out, "how the output moves when inputs move along tangents, to write");
  add(request->tangent_query, "a tangent of the queries, of their shape")->needs(tangent_out);
  add(request->tangent_key, "a tangent of the keys")->needs(tangent_out);
  add(request->tangent_value, "a tangent of the values")->needs(tangent_out);
  add(request->mask, "bool or u8, 0 = hidden, broadcastable to [batch, heads, q_len, k_len]");
  add_causal(command, request->causal);
  add_window(command, request->window);
  add(request->lengths, "i32 or i64 [batch]: keys of each sequence");
  CLI::Option* documents =
      add(request->documents, "i32 or i64 [batch, length], packed [tokens]: a query sees keys of its own document");
  add(request->documents_key, "the same of the keys, if not that of the queries")->needs(documents);
  grad_sinks->needs(add(request->sinks, "f32 [heads]: each head's logit of one more key, without a value"));
  grad_bias->needs(add(request->bias, "f32, added to the logits, broadcastable to [batch, heads, q_len, k_len]"));
  grad_alibi->needs(add(request->alibi, "f32 [heads] or [batch, heads]: slopes of ALiBi"));
  add_table_options(command, request->tables, grad_out);
  CLI::Option* offsets_query = add(request->offsets_query, "i32 or i64 [batch + 1]: where packed queries begin");
  CLI::Option* offsets_key = add(request->offsets_key, "i32 or i64 [batch + 1]: where packed keys begin");
  offsets_key->needs(offsets_query);
  CLI::Option* block_table =
      add(request->block_table, "i32 [batch, blocks]: pages of each sequence; --lengths says how many keys it has");
  block_table->excludes(offsets_key);
  add_score_options(command, request->score);
  const auto add_score_gradient = [&](NamedFile& file, const char* parameter) {
    add(file, "the gradient of this parameter to write")->needs(grad_out)->needs(command.get_option(parameter));
  };
  add_score_gradient(request->grad_score_w_query, "--score-w-query");
  add_score_gradient(request->grad_score_w_key, "--score-w-key");
  add_score_gradient(request->grad_score_v, "--score-v");
  add_score_gradient(request->grad_score_w, "--score-w");
  command
      .add_option("--scale", request->scale, "factor of the scores (default: 1/sqrt(head_dim) for scaled-dot, else 1)")
      ->check(finite_number())
      ->type_name("X");
  command.add_option("--soft-cap", request->soft_cap, "logits become cap * tanh(logits / cap); 0: off")
      ->check(finite_number(0))
      ->type_name("CAP");
  add_precision(command, request->precision);
  add_dropout(command, request->dropout);
  add_dtype(command, request->dtype, {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16},
            "type to store queries, keys and values in (default: that of the files)");
  add_threads(command);
  command.callback([request, offsets_query, offsets_key, block_table] {
    if (*offsets_query && !*offsets_key && !*block_table) {
      throw UsageError("--offsets-query", "requires --offsets-key, or --block-table");
    }
    if (request->tangent_out.given() && !request->tangent_query.given() && !request->tangent_key.given() &&
        !request->tangent_value.given()) {
      throw UsageError("--tangent-out", "requires --tangent-query, --tangent-key or --tangent-value");
    }
    attend(*request);
  });
}

}  // namespace qkv::app
