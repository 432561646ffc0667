// The kinds of encoder-decoder Transformers.
#include "models/encoder_decoders/encoder_decoder_kind.h"

#include <algorithm>

namespace qkv::inline models {

// Adds sinusoids, which follow from the config, and never writes padding. Source: Junczys-Dowmunt et al., "Marian: fast
// neural machine translation in C++" (2018).
const EncoderDecoderKind kMarian{.architecture = "MarianMTModel",
                                 .kind = TransformerEncoderDecoderKind::marian,
                                 .two_tables = true,
                                 .sinusoids = true,
                                 .excludes_padding = true};

// Each side learns its positions and norms its embeddings; mBART norms before sublayers. Sources: Lewis et al., "BART"
// (2019); Liu et al., "Multilingual denoising pre-training for neural machine translation" (2020).
const EncoderDecoderKind kBart{.architecture = "BartForConditionalGeneration",
                               .kind = TransformerEncoderDecoderKind::bart,
                               .embedding_norm = true};
const EncoderDecoderKind kMBart{.architecture = "MBartForConditionalGeneration",
                                .kind = TransformerEncoderDecoderKind::bart,
                                .norm_order = NormOrder::pre,
                                .embedding_norm = true};

const EncoderDecoderKind kOwn{};

const EncoderDecoderKind& meaning_of(TransformerEncoderDecoderKind kind) {
  return *std::ranges::find_if(model_kinds(), [&](const ModelKind& one) {
            const auto* own = one.as<EncoderDecoderKind>();
            return own != nullptr && own->architecture != nullptr && own->kind == kind;
          })->as<EncoderDecoderKind>();
}

}  // namespace qkv::inline models
