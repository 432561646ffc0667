// Finds the kind of an encoder's folder, and the names of all that it must hold.
#include "models/encoders/text_encoder_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/files/descriptor.h"
#include "models/model_kinds.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::inline models {
namespace {

const EncoderKind& encoder_kind_of(const ModelConfig& json) {
  const auto type = json.find("model_type");
  return type ? family_of_kind<EncoderKind>(*type, "encoders") : kBert;
}

// How the names of transformers' classes end that have the head of a task.
constexpr std::pair<TextTask, const char*> kClasses[] = {{TextTask::masked_word, "ForMaskedLM"},
                                                         {TextTask::masked_word, "ForPreTraining"},
                                                         {TextTask::sequence_class, "ForSequenceClassification"},
                                                         {TextTask::token_class, "ForTokenClassification"},
                                                         {TextTask::answer, "ForQuestionAnswering"}};

// The name of the class, the first of "architectures".
std::optional<io::JsonValue> class_of(const ModelConfig& json) {
  const auto classes = json.find("architectures");
  if (!classes || classes->elements().empty()) return {};
  return classes->elements()[0];
}

// Two tasks may have a head of the same names, so the class decides where it is said.
void expect_class(const ModelConfig& json, TextTask task) {
  const auto first = class_of(json);
  if (!first) return;
  const std::string name = first->string();
  const char* wanted = nullptr;
  for (const auto& [of, end] : kClasses) {
    if (of != task) continue;
    if (name.ends_with(end)) return;
    if (wanted == nullptr) wanted = end;
  }
  first->refuse(fmt::format("is {}, must end with {}: the model has another head", io::quote(name), wanted));
}

constexpr std::pair<TextProblem, const char*> kProblems[] = {{TextProblem::single_label, "single_label_classification"},
                                                             {TextProblem::multi_label, "multi_label_classification"},
                                                             {TextProblem::regression, "regression"}};

TextProblem problem_in(const ModelConfig& json) {
  const auto problem = json.find("problem_type");
  if (!problem) return TextProblem::single_label;
  const auto found = std::ranges::find(kProblems, problem->string(), &std::pair<TextProblem, const char*>::second);
  if (found != std::end(kProblems)) return found->first;
  problem->refuse("must be \"single_label_classification\", \"multi_label_classification\" or \"regression\"");
}

// Names of old folders: transformers reads them as those of today.
void name_as_of_old(const FolderTensors& file, TensorName& named) {
  for (std::string& name : named.theirs) {
    for (const auto& [today, old] : {std::pair{"LayerNorm.weight", "gamma"}, std::pair{"LayerNorm.bias", "beta"}}) {
      if (!name.ends_with(today) || file.contains(name)) continue;
      const std::string renamed = name.substr(0, name.rfind('.') + 1) + old;
      if (file.contains(renamed)) name = renamed;
    }
  }
}

// `weight`: of the output.
void name_head(const HeadNames& head, const std::string& prefix, const TextEncoderConfig& config, std::int64_t outputs,
               const std::string& weight, TensorNames& names) {
  const bool is_word = head.task == TextTask::masked_word;
  const std::int64_t dim = config.model_dim, narrow = is_word ? config.embedding_columns() : dim;
  const auto add = [&](const std::string& name, const Dims& shape, const std::string& theirs) {
    names.add_head(kHeadScope + name, shape, {}, theirs);
  };
  if (head.dense != nullptr) {
    const std::string dense = (head.dense_is_pooler ? prefix : "") + head.dense;
    add("dense.weight", {narrow, dim}, dense + ".weight");
    if (head.has_biases) add("dense.bias", {narrow}, dense + ".bias");
  }
  if (head.norm != nullptr) {
    add("norm.weight", {narrow}, std::string(head.norm) + ".weight");
    if (head.has_biases) add("norm.bias", {narrow}, std::string(head.norm) + ".bias");
  }
  add("out.weight", {outputs, narrow}, weight);
  add("out.bias", {outputs}, is_word ? head.out_bias : std::string(head.out) + ".bias");
}

// Prefix of transformers' classes of a model_type.
constexpr std::pair<std::string_view, const char*> kClassNames[] = {
    {"bert", "Bert"},   {"roberta", "Roberta"},       {"xlm-roberta", "XLMRoberta"}, {"distilbert", "DistilBert"},
    {"mpnet", "MPNet"}, {"modernbert", "ModernBert"}, {"albert", "Albert"}};

}  // namespace

std::optional<TextTask> TextEncoderFolder::task_in(const std::string& folder) {
  const ModelConfig json(folder);
  const auto name = class_of(json);
  if (!name) return {};
  const auto found =
      std::ranges::find_if(kClasses, [&](const auto& each) { return name->string().ends_with(each.second); });
  return found == std::end(kClasses) ? std::nullopt : std::optional(found->first);
}

TextEncoderConfig TextEncoderFolder::read_config(const std::string& folder) {
  const ModelConfig json(folder);
  return encoder_kind_of(json).read(json);
}

void TextEncoderFolder::set_head(const EncoderKind& kind, TextTask task, const ModelConfig& json) {
  head_ = &*std::ranges::find(kind.heads, task, &HeadNames::task);
  head_config_.task = task;
  if (task == TextTask::masked_word) head_config_.outputs = config_.vocab;
  if (head_->pooling == nullptr || !json.find(head_->pooling)) return;
  const io::JsonValue pooling = json[head_->pooling];
  head_config_.pools_mean = pooling.string() == "mean";
  if (!head_config_.pools_mean && pooling.string() != "cls") pooling.refuse("must be \"cls\" or \"mean\"");
}

TextEncoderFolder::TextEncoderFolder(const std::string& folder, const TextHeadConfig& trained)
    : config_(read_config(folder)), head_config_(trained), tensors_(folder) {
  const ModelConfig json(folder);
  const EncoderKind& kind = encoder_kind_of(json);
  set_head(kind, trained.task, json);
  const bool is_word = trained.task == TextTask::masked_word;
  if (is_word && !json.flag("tie_word_embeddings", true)) {
    json["tie_word_embeddings"].refuse("must be true: only a tied output is trained");
  }
  const bool same_labels = is_word || json.labels() == trained.labels;
  expect(kind, true, [&](const TensorName& named) {
    const bool is_out = named.ours.starts_with(kHeadScope + std::string("out."));
    return (is_out && !same_labels) || !tensors_.contains(named.theirs.front());
  });
}

TextEncoderFolder::TextEncoderFolder(const std::string& folder, std::optional<TextTask> task)
    : config_(read_config(folder)), tensors_(folder) {
  const ModelConfig json(folder);
  const EncoderKind& kind = encoder_kind_of(json);
  if (task) {
    expect_class(json, *task);
    set_head(kind, *task, json);
    if (*task != TextTask::masked_word) {
      if (*task == TextTask::sequence_class) head_config_.problem = problem_in(json);
      head_config_.labels = json.labels();
      head_config_.outputs = std::ssize(head_config_.labels);
    }
  }
  const auto first = class_of(json);
  for (const HeadNames& head : kind.heads) {
    const std::string out = head.out + std::string(".weight");
    if (task || head.task == TextTask::masked_word || !tensors_.contains(out)) continue;
    throw FormatError(fmt::format("{}: the model has a head, {}; use classify, rank, tag or answer", folder, out));
  }
  has_projection_ = !task && first && first->string() == "HF_ColBERT";
  expect(kind, json.flag("tie_word_embeddings", true), {});
}

void TextEncoderFolder::expect(const EncoderKind& kind, bool tied,
                               const std::function<bool(const TensorName&)>& is_missing) {
  const std::string whole = kind.prefix;
  const std::string prefix = tensors_.contains(whole + kind.table) ? whole : "";
  TensorNames names(prefix);
  kind.name(config_, names);
  if (head_ != nullptr) {
    const HeadNames& head = *head_;
    const std::string out = head.out, table = prefix + kind.table;
    const bool is_word = head.task == TextTask::masked_word;
    name_head(head, prefix, config_, head_config_.outputs, is_word && tied ? table : out + ".weight", names);
    tied_ = is_word && tied;
    if (tied_) tensors_.tie(out + ".weight", table);
    if (is_word && out + ".bias" != head.out_bias) tensors_.tie(out + ".bias", head.out_bias);
  }
  std::vector<TensorName> all = names.all();
  for (TensorName& named : all) name_as_of_old(tensors_, named);
  const auto is_own = [&](const TensorName& named) {
    return !named.ours.starts_with(kHeadScope) || !is_missing(named);
  };
  if (is_missing) {
    const auto lacking = std::stable_partition(all.begin(), all.end(), is_own);
    missing_.assign(lacking, all.end());
    all.erase(lacking, all.end());
  }
  const auto begins = [&](std::string_view name) {
    return std::ranges::any_of(kind.passed_over, [&](std::string_view begin) { return name.starts_with(begin); });
  };
  tensors_.pass_over([&](std::string_view name) {
    const bool other_head = is_missing && !name.starts_with(prefix);
    const bool is_passed_over = other_head || (has_projection_ && name == "linear.weight") || begins(name) ||
                                (name.starts_with(prefix) && begins(name.substr(prefix.size())));
    return is_passed_over && !tensors_.ties(name) && std::ranges::none_of(all, [&](const TensorName& named) {
             return std::ranges::find(named.theirs, name) != named.theirs.end();
           });
  });
  tensors_.expect(std::move(all));
}

namespace {

using Json = nlohmann::ordered_json;

// config.json, of the class whose name ends with `end`, and the weights.
template <class Model>
void write_encoder(const std::string& folder, const char* end, Json json, const Model& model, const TensorNames& names,
                   Dtype dtype) {
  const std::string type = json.value("model_type", "bert");
  const auto class_name =
      std::ranges::find(kClassNames, std::string_view(type), &std::pair<std::string_view, const char*>::first);
  json["model_type"] = type;
  json["architectures"] = {std::string(class_name->second) + end};
  json.erase("torch_dtype");
  json["dtype"] = transformers_dtype(dtype);
  std::map<std::string, Tensor> theirs;
  model.visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", json.dump(2) + "\n");
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

Json config_of(const std::string& folder) { return Json::parse(read_file(folder + "/config.json")); }

}  // namespace

void write_text_folder(const std::string& folder, const std::string& from, const TextModel& model, Dtype dtype) {
  const EncoderKind& kind = encoder_kind_of(ModelConfig(from));
  const TextHeadConfig& head_config = model.config();
  const HeadNames& head = *std::ranges::find(kind.heads, head_config.task, &HeadNames::task);
  const TextEncoderConfig& encoder = model.encoder().config();
  TensorNames names(kind.prefix);
  kind.name(encoder, names);
  name_head(head, kind.prefix, encoder, head_config.outputs, head.out + std::string(".weight"), names);
  Json json = config_of(from);
  for (const char* old : {"id2label", "label2id", "num_labels", "problem_type"}) json.erase(old);
  for (std::size_t i = 0; i < head_config.labels.size(); ++i) {
    json["id2label"][std::to_string(i)] = head_config.labels[i];
    json["label2id"][head_config.labels[i]] = i;
  }
  if (head_config.problem != TextProblem::single_label) {
    json["problem_type"] =
        std::ranges::find(kProblems, head_config.problem, &std::pair<TextProblem, const char*>::first)->second;
  }
  const auto end = std::ranges::find(kClasses, head_config.task, &std::pair<TextTask, const char*>::first)->second;
  write_encoder(folder, end, std::move(json), model, names, dtype);
}

void write_sentence_folder(const std::string& folder, const std::string& from, const SentenceEncoder& model,
                           SentencePooling pooling, std::int64_t max_length, Dtype dtype) {
  const EncoderKind& kind = encoder_kind_of(ModelConfig(from));
  const TextEncoderConfig& encoder = model.encoder().config();
  TensorNames names("");
  kind.name(encoder, names);
  const auto write = [&](const std::string& name, const Json& json) {
    write_file(folder + "/" + name, json.dump(2) + "\n");
  };
  Json modules = Json::array();
  const std::pair<const char*, const char*> parts[] = {
      {"", "Transformer"}, {"1_Pooling", "Pooling"}, {"2_Normalize", "Normalize"}};
  for (const auto& [path, type] : parts) {
    const std::size_t number = modules.size();
    modules.push_back({{"idx", number},
                       {"name", std::to_string(number)},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + type}});
  }
  io::create_folders(folder + "/1_Pooling");
  write("modules.json", modules);
  write("1_Pooling/config.json", {{"word_embedding_dimension", encoder.model_dim},
                                  {"pooling_mode_cls_token", pooling == SentencePooling::first},
                                  {"pooling_mode_mean_tokens", pooling == SentencePooling::mean}});
  write("sentence_bert_config.json", {{"max_seq_length", max_length}, {"do_lower_case", false}});
  write_encoder(folder, "Model", config_of(from), model, names, dtype);
}

}  // namespace qkv::inline models
