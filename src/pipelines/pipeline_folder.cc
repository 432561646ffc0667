// Reads the files of sentence-transformers beside a model, and how a folder's model is to generate.
#include "pipelines/pipeline_folder.h"

#include <fmt/format.h>

#include <algorithm>
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

// The folder of a module below that of the model. A zero byte would end the name early for the system.
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
  if (switched.size() > 1) root["pooling_mode_cls_token"].refuse("must be false beside pooling_mode_mean_tokens");
  return switched.empty() ? Pooling::mean : switched[0];
}

void read_pooling(const std::string& path, std::int64_t dim, SentenceFolder& result) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  const char* const dimension = root.find("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  root[dimension].integer(dim, dim);
  const auto mode = root.find("pooling_mode");
  result.pooling = mode ? pooling_named(*mode) : pooling_switched(root);
  if (const auto include = root.find("include_prompt")) result.include_prompt = include->boolean();
}

std::string last_part(const std::string& type) { return type.substr(type.rfind('.') + 1); }

// Transformer, Pooling, and perhaps Normalize.
void read_modules(const fs::path& folder, const std::string& path, std::int64_t dim, SentenceFolder& result) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const std::vector<io::JsonValue> modules = document.root().elements();
  const char* const kKnown[] = {"Transformer", "Pooling", "Normalize"};
  if (modules.size() != 2 && modules.size() != 3) document.root().refuse("must list Transformer, Pooling, Normalize");
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const io::JsonValue type = modules[i]["type"];
    if (last_part(type.string()) != kKnown[i]) type.refuse(fmt::format("must be {} here", kKnown[i]));
    const fs::path module = module_folder(folder, modules[i]["path"]);
    if (i == 0 && module.lexically_normal() != (folder / "").lexically_normal()) {
      modules[i]["path"].refuse("must be empty: the model must be in the folder itself");
    }
    if (i == 1) read_pooling((module / "config.json").string(), dim, result);
  }
  result.normalize = modules.size() == 3;
}

// What is put before each text unless the caller says otherwise.
void read_prompt(const fs::path& folder, SentenceFolder& result) {
  const fs::path path = folder / "config_sentence_transformers.json";
  if (!io::is_there(path)) return;
  const io::JsonDocument document = io::JsonDocument::of_config(path.string());
  const auto name = document.root().find("default_prompt_name");
  if (!name) return;
  const auto prompts = document.root().find("prompts");
  if (!prompts) name->refuse("must be null or one of \"prompts\", which are missing");
  bool found = false;
  prompts->for_each_member([&](const std::string& key, const io::JsonValue& prompt) {
    if (key != name->string()) return;
    found = true;
    result.prompt = prompt.string();
  });
  if (!found) name->refuse("must be null or one of \"prompts\"");
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
  // Where sentence-transformers has kept the number since version 6. Without a limit it is 1e30.
  if (const fs::path path = folder / "tokenizer_config.json"; most == 0 && io::is_there(path)) {
    const io::JsonDocument document = io::JsonDocument::of_config(path.string());
    const auto length = document.root().find("model_max_length");
    if (length && length->number() <= kMaxLayerSize) most = length->integer(1, kMaxLayerSize);
  }
  return most;
}

SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t dim) {
  SentenceFolder result;
  const fs::path base(folder);
  read_prompt(base, result);
  if (const fs::path modules = base / "modules.json"; io::is_there(modules)) {
    read_modules(base, modules.string(), dim, result);
  }
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
      document.root().refuse("must list Transformer alone: others are not supported of a model that ranks");
    }
    if (!modules[0]["path"].string().empty()) modules[0]["path"].refuse("must be empty");
  }
  if (const fs::path path = base / "config_sentence_transformers.json"; io::is_there(path)) {
    const io::JsonDocument document = io::JsonDocument::of_config(path.string());
    if (const auto prompt = document.root().find("default_prompt_name")) {
      prompt->refuse("is not supported of a model that ranks; set it to null");
    }
    if (const auto name = document.root().find("activation_fn")) return is_sigmoid(*name);
  }
  // Where it was kept before version 6, and before version 4.
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

// What says how to generate.
io::JsonDocument generation_document(const std::string& folder) {
  const bool has_own = is_gguf(folder) || std::filesystem::exists(folder + "/generation_config.json");
  return folder_document(folder, has_own ? "generation_config.json" : "config.json");
}

std::vector<std::int32_t> end_tokens(const io::JsonValue& ends, std::int64_t vocab) {
  return ends.is_list() ? tokens_of(ends, vocab) : std::vector{static_cast<std::int32_t>(ends.integer(0, vocab - 1))};
}

// What both kinds of models obey, but for ends and lengths.
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
    if (options.beams > 1) root["num_beams"].refuse("must be 1 where do_sample is true");
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
