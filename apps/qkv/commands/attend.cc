// qkv attend: attention over arrays in files. Everything is read and checked first, computed as a whole, then written.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.h"
#include "commands/attend_outputs.h"
#include "commands/report_file.h"
#include "core/share.h"
#include "inputs/array_files.h"
#include "inputs/call_options.h"
#include "inputs/head_options.h"
#include "inputs/options.h"
#include "notes.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/attention/verify_attention.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/files.h"

namespace qkv::app {
namespace {

// Keys and values of earlier tokens on the command line of `attend`, to which those of the call are appended.
class AttendCache {
 public:
  explicit AttendCache(ArrayFiles& files) : files_(files) {}

  bool given() const { return past_key_.given(); }
  InputArray& past_key() { return past_key_; }
  InputArray& past_value() { return past_value_; }

  // Keys of a sequence once these are appended.
  std::int64_t length(const TensorView& key) const { return past_key_.view().size(2) + key.size(-2); }
  // What there is then, in memory and in the files for it.
  KeyValueCache append(const TensorView& key, const TensorView& value) const;
  void allocate(const TensorView& key, const TensorView& value, Dtype dtype) const;

 private:
  ArrayFiles& files_;
  // Queries behind a cache are padded; it has no derivatives.
  InputArray& past_key_ =
      files_.input("--past-key",
                   "[batch, kv_heads, past, head_dim]: keys of earlier tokens; --key is appended, and the queries "
                   "have the last positions",
                   needs("--past-value") & excludes("--offsets-query", "--block-table", "--received", "--grad-out",
                                                    "--tangent-query", "--tangent-key", "--tangent-value", "--verify"));
  InputArray& past_value_ =
      files_.input("--past-value", "[batch, kv_heads, past, value_dim]: values of these tokens", needs("--past-key"));
  ArrayOption& present_key_ =
      files_.output("--present-key", "output: all keys, the appended ones last", needs("--past-key"));
  ArrayOption& present_value_ = files_.output("--present-value", "output: all values", needs("--past-key"));
};

KeyValueCache AttendCache::append(const TensorView& key, const TensorView& value) const {
  const TensorView past = past_key_.view();
  const auto extent = [](const TensorView& array, int dim) { return array.rank() == 4 ? array.size(dim) : 1; };
  KeyValueCache cache({.batch = extent(past, 0),
                       .kv_heads = extent(past, 1),
                       .head_dim = extent(past, 3),
                       .value_dim = extent(past_value_.view(), 3),
                       .dtype = past.dtype()});
  cache.append(past, past_value_.view());  // refuses what has not four dimensions
  cache.append(key, value);
  return cache;
}

void AttendCache::allocate(const TensorView& key, const TensorView& value, Dtype dtype) const {
  const auto join = [&](const ArrayOption& output, const TensorView& past, const TensorView& appended) {
    if (!output.given()) return;
    const std::int64_t before = past.size(2), all = before + appended.size(2);
    const MutableTensorView joined = files_.allocate(output, {past.size(0), past.size(1), all, past.size(3)}, dtype);
    convert(past, joined.slice(2, 0, before));
    convert(appended, joined.slice(2, before, all));
  };
  join(present_key_, past_key_.view(), key);
  join(present_value_, past_value_.view(), value);
}

// attend --html: the weights as a report, of long inputs as averages over blocks (qkv/explain/attention_maps.h).
class AttendMaps {
 public:
  explicit AttendMaps(Command& command);

  // UsageError or IoError for a report that would lose one of these files or could not be written.
  void check(const std::vector<NamedFile>& files) const;
  // Adds what the report needs to what attention() writes; nothing if none is wanted.
  void allocate(const RowShapes& shapes, AttentionExtras& extras);
  // If one is wanted.
  bool wanted() const { return maps_.has_value(); }
  void set_cost(const AttentionPlan& cost) { maps_->set_cost(cost); }
  // Once attention() is done.
  void draw(const std::string& command);
  void write() const;

 private:
  ReportFile report_{};
  KeptHeads keep_{};
  std::optional<AttentionMaps> maps_{};
  std::string text_{};
};

MapHead parse_head(const std::string& text) {
  const std::size_t point = text.find('.');
  const auto batch = parse_whole(text.substr(0, point));
  const auto head = point == std::string::npos ? std::nullopt : parse_whole(text.substr(point + 1));
  if (!batch || !head) {
    throw UsageError("--keep", "\"" + text + "\" must be two numbers, BATCH.HEAD, 0.2 for head 2 without a batch");
  }
  return {*batch, *head};
}

AttendMaps::AttendMaps(Command& command) {
  command.add({html_option(
      report_, excludes("--block-weights", "--top-keys", "--row-weights", "--offsets-query", "--offsets-key"))});
  command.add(kept_head_options(keep_, "BATCH.HEAD", needs("--html")));
}

void AttendMaps::check(const std::vector<NamedFile>& files) const { report_.check(files); }

void AttendMaps::allocate(const RowShapes& shapes, AttentionExtras& extras) {
  if (!report_.wanted()) return;
  AttentionMapsOptions options{.keep_rows = keep_.rows};
  for (const std::string& head : keep_.heads) options.keep.push_back(parse_head(head));
  maps_.emplace(shapes.rows, shapes.length, shapes.dtype, options);
  const AttentionExtras own = maps_->extras();
  extras.block_weights = own.block_weights;
  extras.top_keys = own.top_keys;
  extras.top_weights = own.top_weights;
  extras.rows = own.rows;
  extras.row_weights = own.row_weights;
}

void AttendMaps::draw(const std::string& command) {
  if (!maps_) return;
  report_.report.add(*maps_);
  text_ =
      report_.report.html(fmt::format("Attention of {} queries to {} keys", maps_->queries(), maps_->keys()), command);
}

void AttendMaps::write() const {
  if (!maps_) return;
  write_file(report_.path, text_);
  note_written(report_.path);
}

// Query, key or value: in its own type, which must then be the query's, or in the type that was asked for.
void read_vectors(InputArray& file, std::optional<Dtype> dtype) {
  file.read();
  if (!file.given()) return;
  Tensor& array = file.arrays.front();
  const std::string name = file.name + " " + file.paths.front();
  if (array.rank() < 2) {
    throw std::invalid_argument(fmt::format("{} has shape {}; it must be [..., heads, length, size] or [length, size]",
                                            name, to_string(array.shape())));
  }
  if (dtype && array.dtype() != *dtype) array = convert(array, *dtype);
  if (!is_floating(array.dtype())) {
    throw std::invalid_argument(
        fmt::format("{} holds {}; it must hold a floating type, or give --dtype", name, name_of(array.dtype())));
  }
}

void require_type_of_query(Dtype query, const InputArray& file) {
  if (!file.given() || file.view().dtype() == query) return;
  throw std::invalid_argument(
      fmt::format("{} {} holds {}, the queries are {}; they must have the same type, or give --dtype", file.name,
                  file.paths.front(), name_of(file.view().dtype()), name_of(query)));
}

class Attend {
 public:
  explicit Attend(Command& command)
      : command_(command),
        files_(command),
        query_(files_.input("--query", "queries", required())),
        key_(files_.input("--key", "keys", required())),
        value_(files_.input("--value", "values", required())),
        out_(files_.output("--out", "output: [..., heads, q_len, value_dim]", required())),
        outputs_(command, files_),
        maps_(command),
        cache_(files_),
        rules_(command, files_),
        derivatives_(files_, rules_) {
    rules_.add_layouts(files_);
    command.add(
        {{"--verify", size(verify_, std::int64_t{1} << 30), "Recompute N rows in double precision and print the error"},
         dtype_option(dtype_, {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16},
                      "Type to store queries, keys and values in (default: that of the files)"),
         threads_option()});
  }

  void run() {
    check();
    auto line = std::make_unique<WorkingLine>("attending");
    read();
    ForwardPass pass{.query = query_.view(), .key = key_.view(), .value = value_.view(), .options = rules_.options()};
    std::optional<KeyValueCache> cache;
    if (cache_.given()) cache = cache_.append(pass.key, pass.value);
    const RowShapes shapes = row_shapes(cache ? cache_.length(pass.key) : rules_.row_length(pass.key));
    const MutableTensorView out = files_.allocate(out_, shapes.with(pass.value.size(-1)), shapes.dtype);
    AttentionExtras extras = outputs_.allocate(files_, shapes);
    maps_.allocate(shapes, extras);
    Tensor log_sum_exp;  // for the derivatives
    if (derivatives_.asked_for() && !extras.log_sum_exp) {
      log_sum_exp = Tensor::uninitialized(shapes.rows, shapes.dtype);
      extras.log_sum_exp = log_sum_exp;
    }
    pass.out = out;
    pass.log_sum_exp = extras.log_sum_exp;
    derivatives_.allocate(files_, pass);
    ShareTurns turns(1 + derivatives_.passes() + (verify_ > 0 ? 1 : 0), ShareTurns::divided);
    if (cache) {
      cache_.allocate(pass.key, pass.value, shapes.dtype);
      attention(pass.query, *cache, out, pass.options, extras);
      turns.next();
    } else {
      attention(pass.query, pass.key, pass.value, out, pass.options, extras);
      turns.next();
      if (maps_.wanted()) maps_.set_cost(plan(pass.query, pass.key, pass.value, pass.options, extras));
      derivatives_.compute(pass, turns);
    }
    const AttentionReceipt receipt =
        verify_ > 0 ? verify_attention(pass.query, pass.key, pass.value, out, pass.options, verify_)
                    : AttentionReceipt();
    maps_.draw(command_.line());
    line.reset();
    files_.write();
    maps_.write();
    if (verify_ > 0) {
      fmt::print("{} rows recomputed in double precision: largest error {:.3g}, largest value {:.3g}\n", receipt.rows,
                 receipt.worst_error, receipt.largest_value);
    }
  }

 private:
  void check() const {
    files_.check();
    maps_.check(files_.names());
    if (verify_ > 0 && files_.writes_standard_output()) {
      throw UsageError("--verify", "prints on standard output; write the arrays to files");
    }
    rules_.check();
    derivatives_.check();
  }

  void read() {
    for (InputArray* file : {&query_, &key_, &value_, &cache_.past_key(), &cache_.past_value()}) {
      read_vectors(*file, dtype_);
      require_type_of_query(query_.view().dtype(), *file);
    }
    const Dtype accumulation = accumulation_of(query_.view().dtype());
    outputs_.read();
    rules_.read(accumulation);
    derivatives_.read(accumulation);
  }

  // `length`: of a row of weights.
  RowShapes row_shapes(std::int64_t length) const {
    RowShapes shapes{.length = length, .dtype = accumulation_of(query_.view().dtype())};
    for (int i = 0; i + 1 < query_.view().rank(); ++i) shapes.rows.push_back(query_.view().size(i));
    shapes.received = shapes.rows;  // heads are the query's
    if (rules_.offsets_query->given()) {
      shapes.received[0] = key_.view().size(0);
      shapes.blocks = shapes.rows;
      shapes.blocks[0] = std::max<std::int64_t>(rules_.offsets_query->view().element_count() - 1, 0);
    } else {
      shapes.received[shapes.received.size() - 1] = length;
      for (int i = 0; i + 1 < shapes.rows.size(); ++i) shapes.blocks.push_back(shapes.rows[i]);
    }
    return shapes;
  }

  Command& command_;
  ArrayFiles files_;
  InputArray &query_, &key_, &value_;
  ArrayOption& out_;
  AttendOutputs outputs_;
  AttendMaps maps_;
  AttendCache cache_;
  CallOptions rules_;
  AttendDerivatives derivatives_;
  std::optional<Dtype> dtype_{};
  std::int64_t verify_ = 0;  // rows
};

}  // namespace

void add_attend(Command& program) {
  Command& command = program.add_command("attend", "Attend over arrays in files");
  command.add_examples(
      {{"A window of nine keys", "qkv attend --query q.npy --key k.npy --value v.npy --window 8,0 --out o.npy"},
       {"The weights, too, and a page that shows them",
        "qkv attend --query q.npy --key k.npy --value v.npy --out o.npy --html o.html"}});
  command.add_footer(
      "Arrays: .npy, .csv (one matrix), .json or FILE.safetensors:TENSOR. Outputs: the same, told by the ending (a "
      "tensor "
      "without a name is \"array\"), or -, JSON on standard output; f32 (f64 for f64), written all together or not at "
      "all.\n  query [..., heads, q_len, head_dim], key [..., kv_heads, k_len, head_dim], value [..., "
      "kv_heads, k_len, value_dim]\n  packed, with both --offsets: [tokens, heads, size]; sequence b has the rows "
      "offsets[b] <= row < offsets[b + 1]\n  paged, with --block-table: key and value [pages, rows, kv_heads, size]; "
      "queries padded, or packed by --offsets-query");
  const auto attend = std::make_shared<Attend>(command);
  command.on_run([attend] { attend->run(); });
}

}  // namespace qkv::app
