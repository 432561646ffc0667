// Marian: adds sinusoids, which follow from the config, and never writes padding. Source: Junczys-Dowmunt et al.,
// "Marian: fast neural machine translation in C++" (2018).
#include "models/encoder_decoders/encoder_decoder_kind.h"

namespace qkv::inline models {

const EncoderDecoderKind kMarian{.architecture = "MarianMTModel",
                                 .kind = TransformerEncoderDecoderKind::marian,
                                 .two_tables = true,
                                 .sinusoids = true,
                                 .excludes_padding = true};

}  // namespace qkv::inline models
