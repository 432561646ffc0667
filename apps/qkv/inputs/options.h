// Options that several subcommands share: files, masks, scores, sizes; and the arrays that they name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "qkv/attention/dropout.h"
#include "qkv/attention/empty_rows.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/precision.h"
#include "qkv/matmul.h"
#include "qkv/tensor.h"

namespace qkv::app {

// A file, and the option that names it. Without a path it was not given.
struct NamedFile {
  const char* option;
  std::string path{};

  bool given() const { return !path.empty(); }
};

// Refuses a file to be written that is one of these, or could not be written, before any work.
void check_output(const std::vector<NamedFile>& inputs, const NamedFile& output);

// --threads N: the threads of everything that the program computes.
Option threads_option();

Option causal_option(std::optional<Align>& align);

// --align, for calls that are not causal.
Option align_option(std::optional<Align>& align);

// Options of masks made of numbers, each a part of `mask`: --window LEFT,RIGHT and others.
std::vector<Option> mask_number_options(Mask& mask);

// --dtype with those of the four floating types that the command can compute with.
Option dtype_option(std::optional<Dtype>& dtype, const std::vector<Dtype>& types, const char* help);

Option precision_option(Precision& precision);

// --precision of a model.
Option model_precision_option(Precision& precision);

// How a model keeps its weights and multiplies by them.
struct ModelStorage {
  WeightStorage weights = WeightStorage::full;
  Precision precision = Precision::exact;

  // UsageError for what does not go together.
  WeightStorage of_model() const;
};

// --weights, --precision and --threads.
std::vector<Option> storage_options(ModelStorage& storage);

Option soft_cap_option(double& soft_cap);
Option empty_rows_option(EmptyRows& empty_rows);

// --dropout P, and --seed N that goes with it.
std::vector<Option> dropout_options(Dropout& dropout);

// The type that attention accumulates in: f64 for f64, else f32.
Dtype accumulation_of(Dtype dtype);
// The type of the factors that the selected target multiplies with this precision: bf16 where it has instructions for
// them, else the type that it accumulates in.
Dtype multiplied_in(Precision precision, Dtype dtype);

// The array in `path`, which `option` named, as `dtype` (f32 or f64). Other types are refused where the conversion
// could round; numbers in text (.csv, .json) have no type of their own and take the one asked for.
Tensor read_parameter(const std::string& option, const std::string& path, Dtype dtype);

// The sizes of a call of attention, for commands that generate its arrays or need none.
struct AttentionSizes {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t q_len = 0;
  std::int64_t k_len = 0;
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 0;  // 0: head_dim
  std::optional<Dtype> dtype{};

  // To call once the command line is read: the defaults put in. UsageError if kv_heads do not divide heads.
  void complete();

  Dims query() const { return {batch, heads, q_len, head_dim}; }
  Dims key() const { return {batch, kv_heads, k_len, head_dim}; }
  Dims value() const { return {batch, kv_heads, k_len, value_dim}; }
  Dims out() const { return {batch, heads, q_len, value_dim}; }
};

// --batch, --heads, ..., --dtype and --threads.
std::vector<Option> size_options(AttentionSizes& sizes);

}  // namespace qkv::app
