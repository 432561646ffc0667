// What a model costs: its weights once, in the type in which they are kept, and one tensor more while they load.
#include "memory_for_test.h"
#include "qkv/models/bert.h"
#include "qkv/models/marian.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv {
namespace {

using test::cost;
using test::kMebibyte;
using test::Memory;

// Of what the layers round up to panels, of the program's own pages, and of a large page: where the system has one, the
// last of the weights takes the whole of it (without them the tests hold with 2 MiB less).
std::int64_t allowed(std::int64_t weights) { return weights * 115 / 100 + 6 * kMebibyte; }

Weights zero_weights(WeightStorage storage = WeightStorage::full) {
  return Weights([](const std::string&, const Dims& shape) { return Tensor::zeros(shape); }, Dtype::f32, storage);
}

TEST(ModelMemory, AnEncoderKeepsItsWeightsOnce) {
  const BertConfig config{
      .vocab = 8000, .positions = 64, .types = 2, .model_dim = 512, .layers = 4, .heads = 8, .ff_dim = 2048};
  std::int64_t bytes = 0;
  {
    Weights weights = zero_weights();
    Bert(config, weights).visit([&](const std::string&, const Parameter& own) {
      bytes += own.value.element_count() * 4;
    });
  }
  EXPECT_GT(bytes, 60 * kMebibyte);
  const std::int64_t table = 8000 * 512 * 4, layers = bytes - table;
  // In groups of 32 a weight of 8 bits has a scale and a sum beside it, of 4 bytes each.
  for (const auto& [storage, expected] : {std::pair{WeightStorage::full, bytes},
                                          {WeightStorage::bf16, layers / 2 + table},
                                          {WeightStorage::int8_groups, layers * 5 / 16 + table}}) {
    SCOPED_TRACE(expected);
    const Memory added = cost([&, kept = storage] {
      Weights weights = zero_weights(kept);
      return Bert(config, weights);
    });
    EXPECT_LE(added.resident, allowed(expected));
    EXPECT_LE(added.peak, allowed(expected) + table);
  }
}

TEST(ModelMemory, ATranslatorKeepsItsWeightsOnceAndLoadsThemOneByOne) {
  const MarianConfig config{.vocab = 8000,
                            .positions = 64,
                            .model_dim = 512,
                            .encoder_layers = 2,
                            .decoder_layers = 2,
                            .encoder_heads = 8,
                            .decoder_heads = 8,
                            .encoder_ff_dim = 2048,
                            .decoder_ff_dim = 2048,
                            .padding = 1};
  const test::TemporaryFolder folder;
  std::int64_t count = 0;
  {
    Weights weights = zero_weights();
    const Marian model(config, weights);
    model.visit([&](const std::string&, const Parameter& own) { count += own.value.element_count(); });
    model.save(folder / "");
  }
  const std::int64_t table = config.vocab * config.model_dim;
  EXPECT_GT(count, 15'000'000);
  struct Case {
    WeightStorage storage;
    std::int64_t bytes;
  };
  // In fewer bits the table is kept exactly as well, for what is looked up in it.
  const Case cases[] = {{WeightStorage::full, 4 * count},
                        {WeightStorage::bf16, 2 * count + 4 * table},
                        {WeightStorage::int8, count + 4 * table}};
  for (const auto& [storage, bytes] : cases) {
    SCOPED_TRACE(bytes);
    const Memory added = cost([&, kept = storage] { return Marian::load(folder / "", kept); });
    EXPECT_LE(added.resident, allowed(bytes));
    EXPECT_LE(added.peak, allowed(bytes) + 4 * table);
  }
}

}  // namespace
}  // namespace qkv

#endif  // QKV_SANITIZED
