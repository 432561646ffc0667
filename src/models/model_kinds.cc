// Lists the kinds of models.
#include "models/model_kinds.h"

namespace qkv::inline models {
namespace {

constexpr MarianFamily kMarian{"MarianMTModel", MarianKind::marian, NormOrder::post, true};
constexpr MarianFamily kBart{"BartForConditionalGeneration", MarianKind::bart, NormOrder::post};
constexpr MarianFamily kMBart{"MBartForConditionalGeneration", MarianKind::bart, NormOrder::pre};
constexpr MarianFamily kOwn{""};
constexpr Seq2SeqFamily kSeq2Seq;
constexpr VitFamily kVit{VitKind::vit, "ViTModel", "ViTForImageClassification"};
constexpr VitFamily kDinov2{VitKind::dinov2, "Dinov2Model", "Dinov2ForImageClassification"};

constexpr ModelKind kKinds[] = {{"bert", &kBert},
                                {"roberta", &kRoberta},
                                {"xlm-roberta", &kRoberta},
                                {"distilbert", &kDistilBert},
                                {"mpnet", &kMpnet},
                                {"marian", nullptr, &kMarian},
                                {"bart", nullptr, &kBart},
                                {"mbart", nullptr, &kMBart},
                                {"qkv", nullptr, &kOwn},
                                {"vit", nullptr, nullptr, &kVit},
                                {"dinov2", nullptr, nullptr, &kDinov2},
                                {"qkv-seq2seq", nullptr, nullptr, nullptr, &kSeq2Seq}};

}  // namespace

std::span<const ModelKind> model_kinds() { return kKinds; }

}  // namespace qkv::inline models
