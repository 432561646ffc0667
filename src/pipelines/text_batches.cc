// Cuts texts into batches.
#include "pipelines/text_batches.h"

#include <algorithm>

#include "core/refuse.h"
#include "qkv/threads.h"

namespace qkv::inline pipelines {
namespace {

// Tokens that pass through the model together: enough rows for the products to run at full speed, few enough for what
// lies between layers to stay in the cache. Each thread has its own batch.
constexpr std::size_t kBatchTokens = 512;

Encoding encode(const Tokenizer& tokenizer, const std::string& text, std::size_t max_length, std::int64_t* cut) {
  if (cut != nullptr) {
    Encoding encoding = tokenizer.encode(text);
    *cut = std::max<std::int64_t>(0, std::ssize(encoding.ids) - static_cast<std::int64_t>(max_length));
    if (*cut == 0) return encoding;
  }
  return tokenizer.encode(text, {.max_length = max_length});
}

}  // namespace

std::vector<Encoding> encode_texts(const char* function, const Tokenizer& tokenizer, std::span<const std::string> texts,
                                   const TextCut& options) {
  refuse_unless(options.cut.empty() || options.cut.size() == texts.size(), function,
                "{} texts need as many elements in cut, got {}", texts.size(), options.cut.size());
  std::vector<Encoding> encodings(texts.size());
  parallel_for(static_cast<std::int64_t>(texts.size()), options.threads, [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    encodings[at] = encode(tokenizer, std::string(options.prompt) + texts[at], options.max_length,
                           options.cut.empty() ? nullptr : &options.cut[at]);
  });
  return encodings;
}

std::string mask_of(const Tokenizer& tokenizer) {
  for (const std::string& special : tokenizer.special_tokens()) {
    if (special == "[MASK]" || special == "<mask>") return special;
  }
  return {};
}

void for_each_text_batch(std::span<const Encoding> encodings, int threads,
                         const std::function<void(const TokenBatch& batch, std::size_t first)>& run) {
  // Batches are [starts[n], starts[n + 1]).
  std::vector<std::size_t> starts{0};
  for (std::size_t i = 0, tokens = 0; i < encodings.size(); ++i) {
    tokens += encodings[i].ids.size();
    if (tokens > kBatchTokens && i > starts.back()) {
      starts.push_back(i);
      tokens = encodings[i].ids.size();
    }
  }
  starts.push_back(encodings.size());
  parallel_for(static_cast<std::int64_t>(starts.size()) - 1, threads, [&](std::int64_t n, int) {
    const std::size_t begin = starts[static_cast<std::size_t>(n)], end = starts[static_cast<std::size_t>(n) + 1];
    TokenBatch batch;
    std::vector<std::int64_t> lengths;
    for (const Encoding& encoding : encodings.subspan(begin, end - begin)) {
      batch.ids.insert(batch.ids.end(), encoding.ids.begin(), encoding.ids.end());
      batch.types.insert(batch.types.end(), encoding.type_ids.begin(), encoding.type_ids.end());
      lengths.push_back(static_cast<std::int64_t>(encoding.ids.size()));
    }
    batch.offsets = offsets_of(lengths);
    run(batch, begin);
  });
}

}  // namespace qkv::inline pipelines
