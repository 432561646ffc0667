// GGUF files as folders: names of tensors, the order of rotary rows, and config.json.
#include "models/gguf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/share.h"
#include "io/arrays/gguf.h"
#include "io/atomic_folder.h"
#include "io/files/text.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/tensor.h"
#include "text/gguf_tokenizer.h"

namespace qkv::inline models {

// Differences between the architectures with Llama's layers.
struct GgufArchitecture {
  std::string_view name;  // in GGUF, and of the kind of model
  std::string_view class_name;
  bool rotary_neighbours;  // rows of queries and keys that are turned together lie next to each other
  bool has_biases;         // of queries, keys and values; else they may be there
  bool has_head_norms;     // of queries and keys
};

// A model's settings in a GGUF file, checked.
struct GgufModel {
  GgufArchitecture architecture;
  std::int64_t model_dim, ff_dim, layers, heads, kv_heads, head_dim, positions, vocab;
  double norm_epsilon, rotary_base;
  std::optional<double> rotary_factor;  // by which positions are divided
};

// A tensor of the model: its name in the folder, and how many heads' rows must be put in another order.
struct FolderTensor {
  std::string name;
  Dims shape;
  std::int64_t rotary_heads = 0;
  bool required = true;
};

// A tensor of the file and what it becomes.
struct Conversion {
  const io::GgufTensor* from;
  FolderTensor to;
};

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMostSize = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 1024;

constexpr GgufArchitecture kArchitectures[] = {{"llama", "LlamaForCausalLM", true, false, false},
                                               {"qwen2", "Qwen2ForCausalLM", false, true, false},
                                               {"qwen3", "Qwen3ForCausalLM", false, false, true}};

class ModelReader {
 public:
  explicit ModelReader(io::GgufFile& file) : file_(file), architecture_(read_architecture()) {}

  GgufModel read() {
    GgufModel model{};
    model.architecture = architecture_;
    refuse_what_is_unknown();
    model.model_dim = size("embedding_length");
    model.ff_dim = size("feed_forward_length");
    model.layers = file_.integer(key("block_count"), 1, kMostLayers);
    model.heads = size("attention.head_count");
    model.kv_heads = size_or("attention.head_count_kv", model.heads);
    if (model.heads % model.kv_heads != 0) {
      file_.refuse(key("attention.head_count_kv"),
                   fmt::format("is {}, must divide {}, the number of heads", model.kv_heads, model.heads));
    }
    model.head_dim = read_head_dim(model);
    model.positions = size("context_length");
    model.vocab = static_cast<std::int64_t>(file_.count("tokenizer.ggml.tokens"));
    model.norm_epsilon = number("attention.layer_norm_rms_epsilon");
    model.rotary_base = file_.has(key("rope.freq_base")) ? number("rope.freq_base") : 10000.0;
    if (has_rotary_scaling()) model.rotary_factor = number(rotary_factor());
    return model;
  }

 private:
  GgufArchitecture read_architecture() {
    const std::string name = file_.string("general.architecture");
    const auto found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
    if (found != std::end(kArchitectures)) return *found;
    std::string known;
    for (const GgufArchitecture& one : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(one.name);
    file_.refuse("general.architecture", fmt::format("is {}; supported: {}", io::quote(name), known));
  }

  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_.name, name); }
  std::int64_t size(std::string_view name) { return file_.integer(key(name), 1, kMostSize); }
  std::int64_t size_or(std::string_view name, std::int64_t otherwise) {
    return file_.has(key(name)) ? size(name) : otherwise;
  }
  // Files have f32: the shortest decimal that means the same is what somebody wrote.
  double number(std::string_view name) {
    const double value = file_.number(key(name));
    if (!(value > 0)) file_.refuse(key(name), fmt::format("is {}, must be above 0", value));
    return std::stod(fmt::format("{}", static_cast<float>(value)));
  }

  void refuse_what_is_unknown() {
    const auto must_be_absent = [&](const std::string& name, std::int64_t most, std::string_view what) {
      if (file_.has(name) && file_.integer(name, 0, INT64_MAX) > most) {
        file_.refuse(name, fmt::format("is {}; {} not converted", file_.integer(name, 0, INT64_MAX), what));
      }
    };
    must_be_absent("split.count", 1, "models in several files are");
    must_be_absent(key("expert_count"), 0, "mixtures of experts are");
    must_be_absent(key("attention.sliding_window"), 0, "windows are");
  }

  std::int64_t read_head_dim(const GgufModel& model) {
    if (!file_.has(key("attention.key_length")) && model.model_dim % model.heads != 0) {
      file_.refuse(key("attention.head_count"),
                   fmt::format("is {}, must divide {}, the model's dimension", model.heads, model.model_dim));
    }
    const std::int64_t head_dim = size_or("attention.key_length", model.model_dim / model.heads);
    for (const std::string_view same : {"attention.value_length", "rope.dimension_count"}) {
      const std::int64_t other = size_or(same, head_dim);
      if (other != head_dim) {
        file_.refuse(key(same), fmt::format("is {}, must be {}, the size of a head", other, head_dim));
      }
    }
    if (head_dim % 2 != 0) {
      file_.refuse(key("attention.head_count"), fmt::format("gives heads of {}, which must be even", head_dim));
    }
    return head_dim;
  }

  // As the first files called it.
  std::string_view rotary_factor() {
    return file_.has(key("rope.scale_linear")) ? "rope.scale_linear" : "rope.scaling.factor";
  }

  // A factor without a type is linear, as in llama.cpp.
  bool has_rotary_scaling() {
    const std::string scaling = key("rope.scaling.type");
    const std::string type = file_.has(scaling)                ? file_.string(scaling)
                             : file_.has(key(rotary_factor())) ? "linear"
                                                               : "none";
    if (type == "none") return false;
    if (type != "linear") file_.refuse(scaling, fmt::format("is {}; supported: none, linear", io::quote(type)));
    return true;
  }

  io::GgufFile& file_;
  GgufArchitecture architecture_;
};

// By their names in GGUF.
std::map<std::string, FolderTensor> folder_tensors(const GgufModel& model) {
  std::map<std::string, FolderTensor> tensors;
  tensors["token_embd.weight"] = {"model.embed_tokens.weight", {model.vocab, model.model_dim}};
  tensors["output_norm.weight"] = {"model.norm.weight", {model.model_dim}};
  tensors["output.weight"] = {"lm_head.weight", {model.vocab, model.model_dim}, 0, false};
  const GgufArchitecture& of = model.architecture;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto add = [&](std::string_view from, std::string_view to, const Dims& shape, std::int64_t rotary_heads = 0,
                         bool required = true) {
      tensors[fmt::format("blk.{}.{}", layer, from)] = {fmt::format("model.layers.{}.{}", layer, to), shape,
                                                        of.rotary_neighbours ? rotary_heads : 0, required};
    };
    const auto project = [&](std::string_view from, std::string_view to, std::int64_t heads,
                             std::int64_t rotary_heads) {
      add(fmt::format("{}.weight", from), fmt::format("self_attn.{}.weight", to),
          {heads * model.head_dim, model.model_dim}, rotary_heads);
      add(fmt::format("{}.bias", from), fmt::format("self_attn.{}.bias", to), {heads * model.head_dim}, rotary_heads,
          of.has_biases);
    };
    add("attn_norm.weight", "input_layernorm.weight", {model.model_dim});
    project("attn_q", "q_proj", model.heads, model.heads);
    project("attn_k", "k_proj", model.kv_heads, model.kv_heads);
    project("attn_v", "v_proj", model.kv_heads, 0);
    add("attn_output.weight", "self_attn.o_proj.weight", {model.model_dim, model.heads * model.head_dim});
    if (of.has_head_norms) {
      add("attn_q_norm.weight", "self_attn.q_norm.weight", {model.head_dim});
      add("attn_k_norm.weight", "self_attn.k_norm.weight", {model.head_dim});
    }
    add("ffn_norm.weight", "post_attention_layernorm.weight", {model.model_dim});
    add("ffn_gate.weight", "mlp.gate_proj.weight", {model.ff_dim, model.model_dim});
    add("ffn_up.weight", "mlp.up_proj.weight", {model.ff_dim, model.model_dim});
    add("ffn_down.weight", "mlp.down_proj.weight", {model.model_dim, model.ff_dim});
  }
  return tensors;
}

// By their names in the folder. Every tensor of the file is one of the model, and has its shape.
std::map<std::string, Conversion> plan_conversions(const io::GgufFile& file, const GgufModel& model) {
  const std::map<std::string, FolderTensor> known = folder_tensors(model);
  std::map<std::string, Conversion> conversions;
  const auto refuse = [&](const std::string& name, const std::string& rule) {
    throw FormatError(fmt::format("{}: tensor {} {}", file.path(), io::quote(name), rule));
  };
  for (const io::GgufTensor& tensor : file.tensors()) {
    const auto found = known.find(tensor.name);
    if (found == known.end()) {
      refuse(tensor.name,
             fmt::format("is not part of the architecture {} with {} layers", model.architecture.name, model.layers));
    }
    if (tensor.shape() != found->second.shape) {
      refuse(tensor.name,
             fmt::format("is {}; it must be {}", to_string(tensor.shape()), to_string(found->second.shape)));
    }
    conversions[found->second.name] = {&tensor, found->second};
  }
  for (const auto& [name, tensor] : known) {
    if (tensor.required && !conversions.contains(tensor.name)) refuse(name, to_string(tensor.shape) + " is missing");
  }
  return conversions;
}

// Rows 2i and 2i + 1 of a head become its rows i and i + size / 2: GGUF has the numbers that are turned together side
// by side, transformers in two halves.
Tensor in_halves(const Tensor& interleaved, std::int64_t heads) {
  const Tensor halves = Tensor::uninitialized(interleaved.shape(), interleaved.dtype());
  const std::int64_t rows = interleaved.shape()[0], head_rows = rows / heads;
  const std::size_t row_bytes = io::bytes_of(interleaved).size() / static_cast<std::size_t>(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t within = row % head_rows;
    const std::int64_t to = row - within + within / 2 + within % 2 * (head_rows / 2);
    std::memcpy(const_cast<std::byte*>(halves.view().bytes()) + static_cast<std::size_t>(to) * row_bytes,
                interleaved.view().bytes() + static_cast<std::size_t>(row) * row_bytes, row_bytes);
  }
  return halves;
}

Dtype dtype_of_type(io::GgufType type) {
  return type == io::GgufType::f16 ? Dtype::f16 : type == io::GgufType::bf16 ? Dtype::bf16 : Dtype::f32;
}

// A token by the name of its key: "bos", "eos" ...
std::optional<std::int64_t> token_id(io::GgufFile& file, const GgufModel& model, std::string_view name) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  return file.has(key) ? std::optional(file.integer(key, 0, model.vocab - 1)) : std::nullopt;
}

// The ids that files name, and under what name they go into both configs.
void add_token_ids(io::GgufFile& file, const GgufModel& model, OrderedJson& config) {
  for (const auto& [from, to] : {std::pair("bos", "bos"), {"eos", "eos"}, {"padding", "pad"}}) {
    if (const auto id = token_id(file, model, from)) config[fmt::format("{}_token_id", to)] = *id;
  }
}

OrderedJson generation_config_of(io::GgufFile& file, const GgufModel& model) {
  OrderedJson config = OrderedJson::object();
  add_token_ids(file, model, config);
  // As in llama.cpp a text, a turn and a message that calls a tool end alike.
  std::vector<std::int64_t> ends;
  for (const char* name : {"eos", "eot", "eom"}) {
    const auto id = token_id(file, model, name);
    if (id && std::ranges::count(ends, *id) == 0) ends.push_back(*id);
  }
  if (!ends.empty()) config["eos_token_id"] = ends.size() == 1 ? OrderedJson(ends[0]) : OrderedJson(ends);
  return config;
}

OrderedJson config_of(io::GgufFile& file, const GgufModel& model,
                      const std::map<std::string, Conversion>& conversions) {
  const auto has = [&](const char* name) { return conversions.contains(name); };
  std::vector<Dtype> types;
  for (const auto& [name, conversion] : conversions) types.push_back(dtype_of_type(conversion.from->type));
  const bool same = std::ranges::adjacent_find(types, std::not_equal_to<>()) == types.end();
  const std::string_view dtype = !same || types[0] == Dtype::f32 ? "float32"
                                 : types[0] == Dtype::f16        ? "float16"
                                                                 : "bfloat16";
  OrderedJson config = {{"architectures", {model.architecture.class_name}},
                        {"model_type", model.architecture.name},
                        {"vocab_size", model.vocab},
                        {"hidden_size", model.model_dim},
                        {"intermediate_size", model.ff_dim},
                        {"num_hidden_layers", model.layers},
                        {"num_attention_heads", model.heads},
                        {"num_key_value_heads", model.kv_heads},
                        {"head_dim", model.head_dim},
                        {"hidden_act", "silu"},
                        {"max_position_embeddings", model.positions},
                        {"rms_norm_eps", model.norm_epsilon},
                        {"rope_theta", model.rotary_base},
                        {"attention_bias", has("model.layers.0.self_attn.q_proj.bias")},
                        {"mlp_bias", false},
                        {"tie_word_embeddings", !has("lm_head.weight")},
                        {"torch_dtype", dtype}};
  if (model.rotary_factor) config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", *model.rotary_factor}};
  add_token_ids(file, model, config);
  return config;
}

OrderedJson tokenizer_config_of(io::GgufFile& file, const GgufModel& model) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false},
                        {"model_max_length", model.positions}};
  std::map<std::int64_t, std::vector<std::string>> named;
  for (const auto& [from, to] : {std::pair("bos", "bos"), {"eos", "eos"}, {"unknown", "unk"}, {"padding", "pad"}}) {
    if (const auto id = token_id(file, model, from)) named[*id].push_back(fmt::format("{}_token", to));
  }
  file.for_each_string("tokenizer.ggml.tokens", [&](std::size_t id, std::string_view token) {
    const auto found = named.find(static_cast<std::int64_t>(id));
    if (found == named.end()) return;
    for (const std::string& key : found->second) config[key] = token;
  });
  if (file.has("tokenizer.chat_template")) config["chat_template"] = file.string("tokenizer.chat_template");
  return config;
}

}  // namespace

struct GgufFolder::Content {
  explicit Content(const std::string& path)
      : file(path), model(ModelReader(file).read()), conversions(plan_conversions(file, model)) {
    for (const auto& [name, conversion] : conversions) {
      const Dtype dtype = dtype_of_type(conversion.from->type);
      const Dims shape = conversion.from->shape();
      entries.push_back({name, dtype, shape, static_cast<std::uint64_t>(element_count(shape)) * size_of(dtype)});
    }
  }

  io::GgufFile file;
  GgufModel model;
  std::map<std::string, Conversion> conversions;
  std::vector<io::SafetensorsEntry> entries{};
};

bool is_gguf(std::string_view folder) {
  std::error_code ignored;
  return folder.ends_with(".gguf") && !std::filesystem::is_directory(folder, ignored);
}

GgufFolder::GgufFolder(const std::string& path) : content_(std::make_unique<Content>(path)) {}
GgufFolder::~GgufFolder() = default;

std::string_view GgufFolder::kind() const { return content_->model.architecture.name; }
std::size_t GgufFolder::tokens() const { return static_cast<std::size_t>(content_->model.vocab); }
const std::vector<io::SafetensorsEntry>& GgufFolder::tensors() const { return content_->entries; }

std::string GgufFolder::text(std::string_view name) {
  Content& own = *content_;
  if (name == "tokenizer.json") return text::gguf_tokenizer_json(own.file);
  OrderedJson json = OrderedJson::object();
  if (name == "config.json") json = config_of(own.file, own.model, own.conversions);
  if (name == "generation_config.json") json = generation_config_of(own.file, own.model);
  if (name == "tokenizer_config.json") json = tokenizer_config_of(own.file, own.model);
  return json.dump(2) + "\n";
}

Tensor GgufFolder::read(const std::string& name) {
  const auto& [from, to] = content_->conversions.at(name);
  const Tensor tensor = content_->file.read(*from);
  return to.rotary_heads > 0 ? in_halves(tensor, to.rotary_heads) : tensor;
}

WeightStorage GgufFolder::blocks_of(const std::string& name) const {
  const io::GgufTensor& tensor = *content_->conversions.at(name).from;
  if (tensor.rank != 2) return WeightStorage::full;
  if (tensor.type == io::GgufType::q8_0) return WeightStorage::q8;
  const bool halves = tensor.type == io::GgufType::q4_0 || tensor.type == io::GgufType::q4_1;
  return halves ? WeightStorage::q4 : WeightStorage::full;
}

Tensor GgufFolder::read_blocks(const std::string& name) {
  const auto& [from, to] = content_->conversions.at(name);
  const Tensor tensor = content_->file.read_blocks(*from);
  return to.rotary_heads > 0 ? in_halves(tensor, to.rotary_heads) : tensor;
}

ConvertedModel convert_gguf(const std::string& path, const std::string& folder_path) {
  GgufFolder from(path);
  const std::string tokenizer = from.text("tokenizer.json");
  io::AtomicFolder folder(folder_path);
  write_file(folder.unfinished() + "/tokenizer.json", tokenizer);
  for (const std::string name : {"config.json", "generation_config.json", "tokenizer_config.json"}) {
    write_file(folder.unfinished() + "/" + name, from.text(name));
  }
  Tensor tensor;
  ShareTurns turns(std::ssize(from.tensors()));
  io::write_safetensors(folder.unfinished() + "/model.safetensors",
                        {.entries = from.tensors(), .metadata = {{"format", "pt"}}},
                        [&](const std::string& name) -> TensorView {
                          tensor = from.read(name);
                          turns.next();
                          return tensor;
                        });
  folder.commit();
  return {std::string(from.kind()), from.tensors().size(), from.tokens()};
}

}  // namespace qkv::inline models
