// BART and mBART: each side learns its positions and norms its embeddings; mBART norms before sublayers. Sources: Lewis
// et al., "BART" (2019); Liu et al., "Multilingual denoising pre-training for neural machine translation" (2020).
#include "models/encoder_decoders/encoder_decoder_kind.h"

namespace qkv::inline models {

const EncoderDecoderKind kBart{.architecture = "BartForConditionalGeneration",
                               .kind = TransformerEncoderDecoderKind::bart,
                               .embedding_norm = true};
const EncoderDecoderKind kMBart{.architecture = "MBartForConditionalGeneration",
                                .kind = TransformerEncoderDecoderKind::bart,
                                .norm_order = NormOrder::pre,
                                .embedding_norm = true};

}  // namespace qkv::inline models
