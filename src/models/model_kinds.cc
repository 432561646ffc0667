// Lists the kinds of models.
#include "models/model_kinds.h"

#include <algorithm>

namespace qkv::inline models {
namespace {

std::vector<ModelKind>& kinds() {
  static std::vector<ModelKind> all{{"bert", &kBert},
                                    {"roberta", &kRoberta},
                                    {"xlm-roberta", &kRoberta},
                                    {"distilbert", &kDistilBert},
                                    {"mpnet", &kMpnet},
                                    {"modernbert", &kModernBert},
                                    {"albert", &kAlbert},
                                    {"marian", &kMarian},
                                    {"bart", &kBart},
                                    {"mbart", &kMBart},
                                    {"qkv", &kOwn},
                                    {"vit", &kVit},
                                    {"dinov2", &kDinov2},
                                    {"gpt2", &kGpt2},
                                    {"gpt_neox", &kGptNeox},
                                    {"llama", &kLlama},
                                    {"mistral", &kMistral},
                                    {"phi3", &kPhi3},
                                    {"qwen2", &kQwen2},
                                    {"qwen3", &kQwen3},
                                    {"gemma2", &kGemma2},
                                    {"gemma3_text", &kGemma3}};
  return all;
}

}  // namespace

std::span<const ModelKind> model_kinds() { return kinds(); }

void add_kind(const ModelKind& kind) {
  const auto of_type = [&](const ModelKind& known) { return std::string_view(known.type) == kind.type; };
  if (std::ranges::none_of(kinds(), of_type)) kinds().push_back(kind);
}

}  // namespace qkv::inline models
