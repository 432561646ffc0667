// Reads the files of sentence-transformers in a model's folder, and its settings of generation.
#include "pipelines/pipeline_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <vector>

#include "io/files/descriptor.h"
#include "io/json/json_document.h"
#include "layers/basic/layer_checks.h"
#include "models/gguf_folder.h"
#include "models/model_config.h"
#include "pipelines/generation_keys.h"

namespace qkv::inline pipelines {
namespace {

namespace fs = std::filesystem;

// The folder of a module inside the folder of the model. A zero byte would end the name early for the system.
fs::path module_folder(const fs::path& folder, const io::JsonValue& path) {
  const fs::path below = fs::path(path.string()).lexically_normal();
  if (path.string().find('\0') != std::string::npos) path.refuse("must not hold a zero byte");
  if (below.is_absolute() || (!below.empty() && *below.begin() == "..")) path.refuse("must not leave the folder");
  return folder / below;
}

// Since version 6 of sentence-transformers a name, or a list of names whose results are joined side by side.
Pooling pooling_named(const io::JsonValue& mode) {
  const std::vector<io::JsonValue> list = mode.is_string() ? std::vector{mode} : mode.elements();
  if (list.size() == 1 && list[0].string() == "mean") return Pooling::mean;
  if (list.size() == 1 && list[0].string() == "cls") return Pooling::cls;
  mode.refuse("must be \"mean\" or \"cls\"; no other is supported");
}

// Before it a switch for each; none is the mean.
Pooling pooling_switched(const io::JsonValue& root) {
  std::vector<Pooling> switched;
  root.for_each_member([&](const std::string& key, const io::JsonValue& value) {
    if (!key.starts_with("pooling_mode_") || !value.boolean()) return;
    if (key == "pooling_mode_cls_token") return switched.push_back(Pooling::cls);
    if (key == "pooling_mode_mean_tokens") return switched.push_back(Pooling::mean);
    value.refuse("is not supported; set it to false (mean_tokens and cls_token are supported)");
  });
  if (switched.size() > 1) root["pooling_mode_cls_token"].refuse("must be false with pooling_mode_mean_tokens");
  return switched.empty() ? Pooling::mean : switched[0];
}

// Reads a module, by its config and the size of the hidden states.
using ReadModule = void (*)(const io::JsonValue& root, const fs::path& folder, std::int64_t dim,
                            SentenceFolder& result);

void read_pooling(const io::JsonValue& root, const fs::path&, std::int64_t dim, SentenceFolder& result) {
  const char* const dimension = root.find("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  root[dimension].integer(dim, dim);
  const auto mode = root.find("pooling_mode");
  result.pooling = mode ? pooling_named(*mode) : pooling_switched(root);
  if (const auto include = root.find("include_prompt")) result.include_prompt = include->boolean();
}

// A text that must be one of two: whether it is the second.
bool is_second(const io::JsonValue& value, std::string_view first, std::string_view second) {
  const std::string text = value.string();
  if (text != first && text != second) value.refuse(fmt::format("must be \"{}\" or \"{}\"", first, second));
  return text == second;
}

void read_splade(const io::JsonValue& root, const fs::path&, std::int64_t, SentenceFolder& result) {
  const auto strategy = root.find("pooling_strategy");
  if (strategy && strategy->string() != "max") strategy->refuse("must be \"max\"; no other is supported");
  const auto activation = root.find("activation_function");
  result.log_twice = activation && is_second(*activation, "relu", "log1p_relu");
}

std::string last_part(const std::string& type) { return type.substr(type.rfind('.') + 1); }

// A module that is applied to each token.
void expect_tokens(const io::JsonValue& root) {
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const auto name = root.find(key);
    if (name && name->string() != "token_embeddings") name->refuse("must be \"token_embeddings\" here");
  }
}

void read_projection(const io::JsonValue& root, const fs::path& folder, std::int64_t dim, SentenceFolder& result) {
  expect_tokens(root);
  result.projected = {.in = root["in_features"].integer(dim, dim),
                      .out = root["out_features"].integer(1, kMaxLayerSize),
                      .bias = root["bias"].boolean()};
  const io::JsonValue activation = root["activation_function"];
  if (last_part(activation.string()) != "Identity") activation.refuse("must be torch's Identity");
  const auto residual = root.find("use_residual");
  if (residual && residual->boolean()) residual->refuse("is not supported; set it to false");
  result.projection = folder.string();
}

std::vector<std::string> texts_in(const std::optional<io::JsonValue>& list) {
  std::vector<std::string> texts;
  if (list) list->for_each_element([&](const io::JsonValue& each) { texts.push_back(each.string()); });
  return texts;
}

void read_mask(const io::JsonValue& root, const fs::path&, std::int64_t, SentenceFolder& result) {
  const auto only = root.find("keep_only_token_ids");
  if (only && only->size() > 0) only->refuse("is not supported; set it to null");
  result.skipped = texts_in(root.find("skiplist_words"));
  const auto roles = root.find("skiplist_tasks");
  result.skipped_in = roles ? texts_in(roles) : std::vector<std::string>{"document"};
}

void read_normalize(const io::JsonValue&, const fs::path&, std::int64_t, SentenceFolder& result) {
  result.normalize = true;
}

void read_normalized_tokens(const io::JsonValue& root, const fs::path&, std::int64_t, SentenceFolder& result) {
  root["module_input_name"].string();  // its default is another
  expect_tokens(root);
  result.normalize = true;
}

// The modules of a kind, in their order.
struct Module {
  EmbeddingKind kind;
  const char* name;
  bool begins;  // right behind the Transformer
  ReadModule read;
};
constexpr Module kModules[] = {{EmbeddingKind::vector, "Pooling", true, read_pooling},
                               {EmbeddingKind::vector, "Normalize", false, read_normalize},
                               {EmbeddingKind::sparse, "SpladePooling", true, read_splade},
                               {EmbeddingKind::tokens, "Dense", true, read_projection},
                               {EmbeddingKind::tokens, "MultiVectorMask", true, read_mask},
                               {EmbeddingKind::tokens, "Normalize", true, read_normalized_tokens}};

// The module after the Transformer.
EmbeddingKind kind_of(const io::JsonValue& type) {
  const std::string name = last_part(type.string());
  for (const Module& each : kModules) {
    if (each.begins && each.name == name) return each.kind;
  }
  type.refuse("must be Pooling, SpladePooling, Dense, MultiVectorMask or Normalize here");
}

void read_modules(const fs::path& folder, const std::string& path, std::int64_t dim, SentenceFolder& result) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const std::vector<io::JsonValue> modules = document.root().elements();
  if (modules.size() < 2)
    document.root().refuse(
        "must list Transformer and a module that makes embeddings of its "
        "tokens");
  result.kind = kind_of(modules[1]["type"]);
  std::string_view last = "Transformer";
  const auto* next = std::begin(kModules);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const io::JsonValue type = modules[i]["type"];
    const std::string name = last_part(type.string());
    const fs::path module = module_folder(folder, modules[i]["path"]);
    if (i == 0) {
      const bool is_of_words = result.kind == EmbeddingKind::sparse && name == "MLMTransformer";
      if (name != "Transformer" && !is_of_words) type.refuse("must be Transformer here");
      if (module.lexically_normal() == (folder / "").lexically_normal()) continue;
      modules[i]["path"].refuse("must be empty: the model must be in the folder itself");
    }
    next = std::find_if(next, std::end(kModules),
                        [&](const Module& each) { return each.kind == result.kind && each.name == name; });
    if (next == std::end(kModules)) type.refuse(fmt::format("is {}, which is not supported after {}", name, last));
    last = next->name;
    const std::string config = (module / "config.json").string();
    const bool may_miss = next->read == read_normalize;  // of old folders
    const io::JsonDocument own = may_miss ? io::JsonDocument("{}", config) : io::JsonDocument::of_config(config);
    next++->read(own.root(), module, dim, result);
  }
}

// The default prefix of texts, and the size of truncated embeddings.
void read_own_config(const fs::path& folder, SentenceFolder& result) {
  const fs::path path = folder / "config_sentence_transformers.json";
  if (!io::is_there(path)) return;
  const io::JsonDocument document = io::JsonDocument::of_config(path.string());
  const io::JsonValue root = document.root();
  const auto type = root.find("model_type");
  if (type && type->string() == "ColBERT")
    type->refuse(
        "was written by PyLate; save the model with "
        "sentence-transformers 6");
  const auto prompts = root.find("prompts");
  if (prompts) {
    prompts->for_each_member([&](const std::string& key, const io::JsonValue& prompt) {
      result.prompts[key] = prompt.is("null") ? "" : prompt.string();
    });
  }
  if (const auto name = root.find("default_prompt_name")) {
    if (!prompts) name->refuse("must be null or one of \"prompts\", which are missing");
    const auto found = prompts->find(name->string());
    if (!found) name->refuse("must be null or one of \"prompts\"");
    result.prompt = found->string();
  }
  const char* const left = result.kind == EmbeddingKind::sparse ? "max_active_dims" : "truncate_dim";
  const auto dimensions = root.find(left);
  if (dimensions && result.kind != EmbeddingKind::tokens) result.dimensions = dimensions->integer(1, kMaxLayerSize);
}

// How queries and documents of a folder of tokens differ.
void read_roles(const fs::path& folder, SentenceFolder& result) {
  const fs::path path = folder / "sentence_bert_config.json";
  if (result.kind != EmbeddingKind::tokens || !io::is_there(path)) return;
  const io::JsonDocument document = io::JsonDocument::of_config(path.string());
  const io::JsonValue root = document.root();
  for (const auto& [key, role] :
       {std::pair("query_length", TextRole::query), std::pair("document_length", TextRole::document)}) {
    if (const auto length = root.find(key)) result.lengths[role] = length->integer(1, kMaxLayerSize);
  }
  const auto expansion = root.find("query_expansion");
  if (!expansion) return;
  const auto attended = expansion->find("attend");
  const auto token = expansion->find("token");
  result.expansion = {.length = (*expansion)["length"].integer(1, kMaxLayerSize),
                      .cuts = is_second((*expansion)["strategy"], "min", "fixed"),
                      .attended = attended && attended->boolean(),
                      .token = token ? token->string() : ""};
}

}  // namespace

// Nothing else than the tokenizer may change a text.
std::int64_t read_max_length(const std::string& name) {
  const fs::path folder(name);
  std::int64_t most = 0;
  if (const fs::path path = folder / "sentence_bert_config.json"; io::is_there(path)) {
    const io::JsonDocument document = io::JsonDocument::of_config(path.string());
    if (const auto length = document.root().find("max_seq_length")) {
      most = length->integer(1, kMaxLayerSize);
    }
    const auto lower = document.root().find("do_lower_case");
    if (lower && lower->boolean()) lower->refuse("is not supported; set it to false (tokenizer.json handles case)");
  }
  // The place of the number since version 6 of sentence-transformers; 1e30 means no limit.
  if (const fs::path path = folder / "tokenizer_config.json"; most == 0 && io::is_there(path)) {
    const io::JsonDocument document = io::JsonDocument::of_config(path.string());
    const auto length = document.root().find("model_max_length");
    if (length && length->number() <= kMaxLayerSize) most = length->integer(1, kMaxLayerSize);
  }
  return most;
}

namespace {

constexpr const char* kColbert = "HF_ColBERT";

// Whether config.json names ColBERT's own class.
bool is_colbert(const std::string& folder) {
  const io::JsonDocument config = io::JsonDocument::of_config(folder + "/config.json");
  const auto classes = config.root().find("architectures");
  if (!classes || classes->elements().empty()) return false;
  const io::JsonValue first = classes->elements()[0];
  const std::string name = first.string();
  if (name != kColbert && name.find("ColBERT") != std::string::npos) {
    first.refuse(
        fmt::format("is {}, must be \"{}\": other ColBERT classes are not supported", io::quote(name), kColbert));
  }
  return name == kColbert;
}

// Settings with only one supported value.
void expect_text(const io::JsonValue& root, const char* key, std::string_view only) {
  const auto value = root.find(key);
  if (value && value->string() != only) value->refuse(fmt::format("must be \"{}\"; no other is supported", only));
}

// artifact.metadata of ColBERT (Khattab, Zaharia, 2020), whose defaults are its own.
void read_colbert(const std::string& folder, std::int64_t dim, SentenceFolder& result) {
  const io::JsonDocument document = io::JsonDocument::of_config(folder + "/artifact.metadata");
  const io::JsonValue root = document.root();
  const auto number = [&](const char* key, std::int64_t otherwise) {
    const auto value = root.find(key);
    return value ? value->integer(1, kMaxLayerSize) : otherwise;
  };
  const auto flag = [&](const char* key, bool otherwise) {
    const auto value = root.find(key);
    return value ? value->boolean() : otherwise;
  };
  const auto word = [&](const char* key, const char* otherwise) {
    const auto value = root.find(key);
    return value ? value->string() : otherwise;
  };
  expect_text(root, "similarity", "cosine");
  expect_text(root, "interaction", "colbert");
  result.kind = EmbeddingKind::tokens;
  result.projected = {.in = dim, .out = number("dim", 128), .bias = false};
  result.projection = folder;
  result.normalize = true;
  if (flag("mask_punctuation", true)) {
    for (char c = '!'; c <= '~'; ++c) {
      if (std::ispunct(static_cast<unsigned char>(c)) != 0) result.skipped.emplace_back(1, c);
    }
  }
  result.skipped_in = {"document"};
  result.expansion = {
      .length = number("query_maxlen", 32), .cuts = true, .attended = flag("attend_to_mask_tokens", false)};
  for (const TextRole role : {TextRole::text, TextRole::document}) {
    result.lengths[role] = number("doc_maxlen", 220);
    result.markers[role] = word("doc_token_id", "[unused1]");
  }
  result.markers[TextRole::query] = word("query_token_id", "[unused0]");
}

}  // namespace

SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t dim) {
  SentenceFolder result;
  const fs::path base(folder);
  if (is_colbert(folder)) {
    read_colbert(folder, dim, result);
    return result;
  }
  if (const fs::path modules = base / "modules.json"; io::is_there(modules)) {
    read_modules(base, modules.string(), dim, result);
  }
  read_own_config(base, result);
  read_roles(base, result);
  result.max_length = read_max_length(folder);
  return result;
}

namespace {

// The modules of torch that scores may pass: whether it is the sigmoid.
bool is_sigmoid(const io::JsonValue& name) {
  const std::string last = last_part(name.string());
  if (last != "Sigmoid" && last != "Identity") name.refuse("must be torch's Sigmoid or Identity");
  return last == "Sigmoid";
}

}  // namespace

bool scores_are_sigmoid(const std::string& folder) {
  const fs::path base(folder);
  if (const fs::path path = base / "modules.json"; io::is_there(path)) {
    const io::JsonDocument document = io::JsonDocument::of_config(path.string());
    const std::vector<io::JsonValue> modules = document.root().elements();
    if (modules.size() != 1 || last_part(modules[0]["type"].string()) != "Transformer") {
      document.root().refuse("must list Transformer alone: a ranking model supports no other module");
    }
    if (!modules[0]["path"].string().empty()) modules[0]["path"].refuse("must be empty");
  }
  if (const fs::path path = base / "config_sentence_transformers.json"; io::is_there(path)) {
    const io::JsonDocument document = io::JsonDocument::of_config(path.string());
    if (const auto prompt = document.root().find("default_prompt_name")) {
      prompt->refuse("is not supported in a ranking model; set it to null");
    }
    if (const auto name = document.root().find("activation_fn")) return is_sigmoid(*name);
  }
  // Its places before version 6, and before version 4.
  const io::JsonDocument document = io::JsonDocument::of_config((base / "config.json").string());
  const auto kept = document.root().find("sentence_transformers");
  const auto name = kept ? kept->find("activation_fn") : document.root().find("sbert_ce_default_activation_function");
  return !name || is_sigmoid(*name);
}

namespace {

constexpr std::int64_t kMaxLength = 1 << 20;

std::vector<std::int32_t> tokens_of(const io::JsonValue& list, std::int64_t vocab) {
  std::vector<std::int32_t> tokens;
  for (const io::JsonValue& id : list.elements()) tokens.push_back(static_cast<std::int32_t>(id.integer(0, vocab - 1)));
  if (tokens.empty()) list.refuse("must have at least one token");
  return tokens;
}

// A word that is an end alone does not forbid the end.
std::vector<std::vector<std::int32_t>> forbidden_tokens(const io::JsonValue& words, std::span<const std::int32_t> ends,
                                                        std::int64_t vocab) {
  std::vector<std::vector<std::int32_t>> runs;
  for (const io::JsonValue& word : words.elements()) {
    std::vector<std::int32_t> run = tokens_of(word, vocab);
    const bool is_end = run.size() == 1 && std::find(ends.begin(), ends.end(), run.front()) != ends.end();
    if (!is_end) runs.push_back(std::move(run));
  }
  return runs;
}

EarlyStopping early_stopping(const io::JsonValue& value) {
  if (!value.is_string()) return value.boolean() ? EarlyStopping::yes : EarlyStopping::no;
  if (value.string() != "never") value.refuse("must be true, false or \"never\"");
  return EarlyStopping::never;
}

// The file with the settings of generation.
io::JsonDocument generation_document(const std::string& folder) {
  const bool has_own = is_gguf(folder) || std::filesystem::exists(folder + "/generation_config.json");
  return folder_document(folder, has_own ? "generation_config.json" : "config.json");
}

std::vector<std::int32_t> end_tokens(const io::JsonValue& ends, std::int64_t vocab) {
  return ends.is_list() ? tokens_of(ends, vocab) : std::vector{static_cast<std::int32_t>(ends.integer(0, vocab - 1))};
}

// Settings of both kinds of models, except ends and lengths.
void read_search(const io::JsonValue& root, std::int64_t vocab, GenerateOptions& options) {
  if (const auto words = root.find("bad_words_ids")) options.forbidden = forbidden_tokens(*words, options.ends, vocab);
  if (const auto token = root.find("forced_eos_token_id")) {
    options.forced_end = static_cast<std::int32_t>(token->integer(0, vocab - 1));
  }
  if (const auto token = root.find("forced_bos_token_id")) {
    options.forced_begin = static_cast<std::int32_t>(token->integer(0, vocab - 1));
  }
  if (const auto beams = root.find("num_beams")) options.beams = beams->integer(1, kMaxBeams);
  if (const auto size = root.find("no_repeat_ngram_size")) options.no_repeat_ngram = size->integer(0, kMaxLength);
  if (const auto penalty = root.find("length_penalty")) options.length_penalty = penalty->number();
  if (const auto penalty = root.find("repetition_penalty")) {
    options.repetition_penalty = penalty->number();
    if (!(options.repetition_penalty > 0)) penalty->refuse("must be above 0");
  }
  if (const auto renormalize = root.find("renormalize_logits")) options.renormalize = renormalize->boolean();
  if (const auto early = root.find("early_stopping")) options.early_stopping = early_stopping(*early);
}

Sampling read_sampling(const io::JsonValue& root) {
  constexpr std::int64_t kTopK = 50;  // the default of transformers
  Sampling sampling{.top_k = kTopK};
  if (const auto k = root.find("top_k")) sampling.top_k = k->integer(0, std::numeric_limits<std::int32_t>::max());
  const auto read = [&](const char* key, double& to, double least, double most) {
    const auto value = root.find(key);
    if (!value) return;
    to = value->number();
    if (!(to >= least && to <= most)) value->refuse(fmt::format("must be {} to {}", least, most));
  };
  constexpr double kLeast = 1e-6, kMostTemperature = 1e6;
  read("temperature", sampling.temperature, kLeast, kMostTemperature);
  read("top_p", sampling.top_p, kLeast, 1);
  read("min_p", sampling.min_p, 0, 1);
  return sampling;
}

}  // namespace

Generation read_generation(const std::string& folder, std::int64_t vocab) {
  const io::JsonDocument document = generation_document(folder);
  const io::JsonValue root = document.root();
  refuse_generation_keys(root, GeneratingModel::encoder_decoder);

  Generation generation;
  GenerateOptions& options = generation.options;
  options.start = static_cast<std::int32_t>(root["decoder_start_token_id"].integer(0, vocab - 1));
  options.ends = end_tokens(root["eos_token_id"], vocab);
  read_search(root, vocab, options);
  // max_length and min_length count the start token, and min_length the end token, too.
  if (const auto length = root.find("max_length")) options.max_length = length->integer(2, kMaxLength) - 1;
  if (const auto length = root.find("min_length")) {
    options.min_length = std::max<std::int64_t>(0, length->integer(0, kMaxLength) - 1);
  }
  if (const auto length = root.find("min_new_tokens")) options.min_length = length->integer(0, kMaxLength);
  if (const auto length = root.find("max_new_tokens")) options.max_length = length->integer(1, kMaxLength);
  if (const auto threshold = root.find("unsure_below")) generation.unsure_below = threshold->number();
  return generation;
}

TextGeneration read_text_generation(const std::string& folder, std::int64_t vocab) {
  const io::JsonDocument document = generation_document(folder);
  const io::JsonValue root = document.root();
  refuse_generation_keys(root, GeneratingModel::language);

  TextGeneration generation;
  GenerateOptions& options = generation.options;
  const auto ends = root.find("eos_token_id");
  options.ends = ends ? end_tokens(*ends, vocab) : std::vector<std::int32_t>();
  read_search(root, vocab, options);
  if (const auto begin = root.find("forced_bos_token_id")) begin->refuse("is not supported; remove it");
  const auto samples = root.find("do_sample");
  if (samples && samples->boolean()) {
    options.sampling = read_sampling(root);
    if (options.beams > 1) root["num_beams"].refuse("must be 1 when do_sample is true");
  }
  const auto read = [&](const char* key, auto& to, std::int64_t least) {
    if (const auto length = root.find(key)) to = length->integer(least, kMaxLength);
  };
  read("max_length", generation.max_length, 1);
  read("max_new_tokens", generation.max_new_tokens, 1);
  read("min_length", generation.min_length, 0);
  read("min_new_tokens", generation.min_new_tokens, 0);
  if (const auto stops = root.find("stop_strings")) {
    for (const io::JsonValue& text : stops->is_list() ? stops->elements() : std::vector{*stops}) {
      generation.stop_strings.push_back(text.string());
      if (generation.stop_strings.back().empty()) text.refuse("must not be empty");
    }
  }
  return generation;
}

}  // namespace qkv::inline pipelines
