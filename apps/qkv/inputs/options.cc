// Declares options that several commands share, checks their values, and the files that are written against those that
// are read.
#include "inputs/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "attention/options/mask_kinds.h"
#include "command_line.h"
#include "io/files/descriptor.h"
#include "io/files/files.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/layers/weights.h"
#include "qkv/threads.h"
#include "simd/dispatch.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// A form that is the same for two names of one file; the name itself where the system cannot follow it.
fs::path same_file_key(const std::string& path) {
  std::error_code error;
  const fs::path name = io::parse_array_path(path).file,
                 canonical = fs::weakly_canonical(fs::absolute(name, error), error);
  return error ? name : canonical;
}

// IoError if the file could not be written.
void check_writable(const std::string& name) {
  const fs::path path(name), folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  const bool has_folder = fs::is_directory(folder, error), is_folder = fs::is_directory(path, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    io::throw_io_error(name, "write", error);
  }
  if (!has_folder) throw IoError(fmt::format("{}: the folder {} does not exist", name, folder.string()), ENOENT);
  if (is_folder) throw IoError(name + ": is a folder", EISDIR);
}

}  // namespace

void check_output(const std::vector<NamedFile>& inputs, const NamedFile& output) {
  for (const NamedFile& other : inputs) {
    if (other.given() && same_file_key(other.path) == same_file_key(output.path)) {
      throw UsageError(output.option,
                       fmt::format("{} is also the file of {}; give another file", output.path, other.option));
    }
  }
  check_writable(io::parse_array_path(output.path).file);
}

namespace {

const Names<Align> kAligns = {{"top-left", Align::top_left}, {"bottom-right", Align::bottom_right}};

Option weights_option(WeightStorage& storage) {
  const Names<WeightStorage> names(std::begin(kWeightStorages), std::end(kWeightStorages));
  return {"--weights", choice(storage, names),
          "Storage of the weights: fewer bits take less memory and are faster, but less accurate; int8 has one scale "
          "per output of a layer (for translations), int8_groups one per 32 of its weights (for embeddings); q8 and q4 "
          "keep the 8 or 4 bits of a GGUF file exactly"};
}

bool is_text(const std::string& path) { return io::has_ending(path, ".csv") || io::has_ending(path, ".json"); }

}  // namespace

Option threads_option() {
  const auto set = [](const std::string& text) {
    set_threads(static_cast<int>(*parse_whole(text)));
    return std::string();
  };
  return {"--threads",
          {Check(set), "N", whole_number(1, 1024)},
          "Number of threads (default: QKV_THREADS, else OMP_NUM_THREADS, else the cores this process may use)"};
}

Option causal_option(std::optional<Align>& align) {
  return {"--causal", choice(align, kAligns),
          "Query i sees keys j <= i (top-left) or j <= i + k_len - q_len (bottom-right)"};
}

Option align_option(std::optional<Align>& align) {
  return {"--align", choice(align, kAligns),
          "Position of query i for --window, --alibi and tables: i (top-left) or i + k_len - q_len (bottom-right); "
          "default: as --causal, else top-left",
          excludes("--causal")};
}

namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return 'a' <= c && c <= 'z' ? c - 'a' + 'A' : c; });
  return result;
}

// "LEFT,RIGHT", and what these must be.
std::pair<std::string, std::string> form_of(const MaskDescription& kind) {
  std::string form, rules;
  for (const auto& [name, least] : kind.numbers) {
    form += (form.empty() ? "" : ",") + upper(name);
    rules += fmt::format(", {} {}{} or more", upper(name), least, least < 0 ? " (open)" : "");
  }
  return {form, rules};
}

// The numbers of a kind, which make a part of `mask`.
Value numbers_of(const MaskDescription& kind, Mask& mask) {
  const auto [form, rules] = form_of(kind);
  const auto take = [=, &kind, &mask](const std::string& text) {
    const std::vector<std::int64_t> numbers = parse_wholes(text);
    const auto fits = [](std::int64_t number, const MaskNumber& wanted) { return number >= wanted.least; };
    if (!std::ranges::equal(numbers, kind.numbers, fits)) {
      return fmt::format("\"{}\" must be {}: whole numbers{}", text, form, rules);
    }
    Mask::Part part{.kind = kind.kind};
    std::ranges::copy(numbers, part.numbers.begin());
    mask = mask & Mask(part);
    return std::string();
  };
  return {Check(take), form};
}

}  // namespace

std::vector<Option> mask_number_options(Mask& mask) {
  std::vector<Option> options;
  for (const MaskDescription& kind : mask_kinds()) {
    if (kind.numbers.empty()) continue;
    options.push_back({"--" + std::string(kind.name), numbers_of(kind, mask),
                       fmt::format("A query at position p (see --causal) sees {}", kind.rule)});
  }
  return options;
}

Option dtype_option(std::optional<Dtype>& dtype, const std::vector<Dtype>& types, const char* help) {
  Names<Dtype> names;
  for (const Dtype type : types) names.emplace_back(name_of(type), type);
  return {"--dtype", choice(dtype, names), help};
}

Option precision_option(Precision& precision) {
  const Names<Precision> names(std::begin(kPrecisions), std::end(kPrecisions));
  return {"--precision", choice(precision, names),
          "Precision of products: reduced rounds their factors to bf16, with the same bits on every CPU with fused "
          "multiply-add; reduced_pairs is faster on AVX512-BF16, but gives other bits (default: exact)"};
}

Option model_precision_option(Precision& precision) {
  Option option = precision_option(precision);
  option.help =
      "Precision of products: reduced rounds weights and rows to bf16 and takes half the memory, with the same "
      "bits on every CPU with fused multiply-add; reduced_pairs is faster, needs AVX512-BF16, but gives other bits "
      "(default: exact)";
  return option;
}

WeightStorage ModelStorage::of_model() const {
  return of_option("--precision", [&] { return with_precision(weights, precision); });
}

std::vector<Option> storage_options(ModelStorage& storage) {
  return {weights_option(storage.weights), model_precision_option(storage.precision), threads_option()};
}

Option soft_cap_option(double& soft_cap) {
  return {"--soft-cap", finite(soft_cap, "CAP", 0), "Logits become cap * tanh(logits / cap); 0: off"};
}

Option empty_rows_option(EmptyRows& empty_rows) {
  const Names<EmptyRows> names = {{"zero", EmptyRows::zero}, {"nan", EmptyRows::nan}};
  return {"--empty-rows", choice(empty_rows, names),
          "Output and weights of a query that sees no key; nan: as PyTorch's softmax (default: zero)"};
}

std::vector<Option> dropout_options(Dropout& dropout) {
  return {{"--dropout", probability(dropout.p), "Probability that a weight becomes 0 (default: 0)"},
          {"--seed", seed(dropout.seed), "Seed of dropout (default: 0)", needs("--dropout")}};
}

Dtype accumulation_of(Dtype dtype) { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

Dtype multiplied_in(Precision precision, Dtype dtype) {
  ensure_target();
  const bool in_bf16 = precision == Precision::reduced_pairs || (precision == Precision::reduced && uses_amx());
  return in_bf16 ? Dtype::bf16 : accumulation_of(dtype);
}

Tensor read_parameter(const std::string& option, const std::string& path, Dtype dtype) {
  Tensor array = read_array(path);
  if (array.dtype() == dtype) return array;
  const bool exact = is_floating(array.dtype()) && array.dtype() != Dtype::f64;
  if (!exact && !is_text(path)) {
    throw std::invalid_argument(
        fmt::format("{} {} holds {}; it must be {}", option, path, name_of(array.dtype()),
                    dtype == Dtype::f64 ? "a floating type" : "f32, or f64 where the queries are f64"));
  }
  return convert(array, dtype);
}

std::vector<Option> size_options(AttentionSizes& sizes) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 30;  // as attention has it
  return {
      {"--batch", size(sizes.batch), "Sequences (default: 1)"},
      {"--heads", size(sizes.heads), "Query heads (default: 1)"},
      {"--kv-heads", size(sizes.kv_heads), "Key and value heads (default: --heads)"},
      {"--q-len", size(sizes.q_len, kLongest), "Queries of a sequence", required()},
      {"--k-len", size(sizes.k_len, kLongest), "Keys of a sequence", required()},
      {"--head-dim", size(sizes.head_dim, 1024), "Size of a query and a key (default: 64)"},
      {"--value-dim", size(sizes.value_dim, 1024), "Size of a value (default: --head-dim)"},
      dtype_option(sizes.dtype, {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}, "Type of the arrays (default: f32)"),
      threads_option()};
}

void AttentionSizes::complete() {
  if (kv_heads == 0) kv_heads = heads;
  if (value_dim == 0) value_dim = head_dim;
  if (!dtype) dtype = Dtype::f32;
  if (heads % kv_heads != 0) throw UsageError("--kv-heads", fmt::format("{} must divide --heads {}", kv_heads, heads));
}

}  // namespace qkv::app
