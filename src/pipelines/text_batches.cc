// Cuts texts into batches.
#include "pipelines/text_batches.h"

#include <vector>

#include "qkv/threads.h"

namespace qkv::inline pipelines {
namespace {

// Tokens that pass through the model together: enough rows for the products to run at full speed, few enough for what
// lies between layers to stay in the cache. Each thread has its own batch.
constexpr std::size_t kBatchTokens = 512;

}  // namespace

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
