// Finds the kind of an encoder's folder, and the names of all that it must hold.
#include "models/encoders/text_encoder_folder.h"

#include <algorithm>
#include <utility>

#include "models/model_kinds.h"

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

TextEncoderFolder::TextEncoderFolder(const std::string& folder, std::optional<TextTask> task)
    : config_(read_config(folder)), tensors_(folder) {
  const ModelConfig json(folder);
  const EncoderKind& kind = encoder_kind_of(json);
  if (task) {
    expect_class(json, *task);
    head_ = &*std::ranges::find(kind.heads, *task, &HeadNames::task);
    head_config_.task = *task;
    if (*task == TextTask::masked_word) {
      head_config_.outputs = config_.vocab;
    } else {
      head_config_.labels = json.labels();
      head_config_.outputs = std::ssize(head_config_.labels);
    }
    if (head_->pooling != nullptr && json.find(head_->pooling)) {
      const io::JsonValue pooling = json[head_->pooling];
      head_config_.pools_mean = pooling.string() == "mean";
      if (!head_config_.pools_mean && pooling.string() != "cls") pooling.refuse("must be \"cls\" or \"mean\"");
    }
  }
  expect(kind, json.flag("tie_word_embeddings", true));
}

void TextEncoderFolder::expect(const EncoderKind& kind, bool tied) {
  const std::string whole = kind.prefix;
  const std::string prefix = tensors_.contains(whole + kind.table) ? whole : "";
  TensorNames names(prefix);
  kind.name(config_, names);
  if (head_ != nullptr) {
    const HeadNames& head = *head_;
    const std::string ours = kHeadScope, out = head.out;
    const bool is_word = head.task == TextTask::masked_word;
    const std::int64_t dim = config_.model_dim, outputs = head_config_.outputs,
                       narrow = is_word ? config_.embedding_columns() : dim;
    const auto add = [&](const std::string& name, const Dims& shape, const std::string& theirs) {
      names.add_head(ours + name, shape, {}, theirs);
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
    const std::string table = prefix + kind.table;
    add("out.weight", {outputs, narrow}, is_word && tied ? table : out + ".weight");
    add("out.bias", {outputs}, is_word ? head.out_bias : out + ".bias");
    if (is_word && tied) tensors_.tie(out + ".weight", table);
    if (is_word && out + ".bias" != head.out_bias) tensors_.tie(out + ".bias", head.out_bias);
  }
  std::vector<TensorName> all = names.all();
  for (TensorName& named : all) name_as_of_old(tensors_, named);
  const auto begins = [&](std::string_view name) {
    return std::ranges::any_of(kind.passed_over, [&](std::string_view begin) { return name.starts_with(begin); });
  };
  tensors_.pass_over([&](std::string_view name) {
    const bool is_passed_over = begins(name) || (name.starts_with(prefix) && begins(name.substr(prefix.size())));
    return is_passed_over && !tensors_.ties(name) && std::ranges::none_of(all, [&](const TensorName& named) {
             return std::ranges::find(named.theirs, name) != named.theirs.end();
           });
  });
  tensors_.expect(std::move(all));
}

}  // namespace qkv::inline models
