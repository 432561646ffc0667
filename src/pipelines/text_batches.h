// Texts on their way through an encoder: batches of whole ones, in order.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "qkv/models/text_encoder.h"
#include "qkv/text/tokenizer.h"

namespace qkv::inline pipelines {

// Calls `run` with each batch and the number of its first text, several at a time on as many threads.
void for_each_text_batch(std::span<const Encoding> encodings, int threads,
                         const std::function<void(const TokenBatch& batch, std::size_t first)>& run);

}  // namespace qkv::inline pipelines
