// What a model costs: its weights once, in the type in which they are kept, and one tensor more while they load.
#include "memory_for_test.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv::test {
namespace {

Weights zero_weights(WeightStorage storage = WeightStorage::full) {
  const auto zeros = [bytes = block_bytes(storage)](const std::string&, const Dims& shape) {
    return shape.size() == 2 && bytes > 0 ? Tensor::zeros({shape[0], shape[1] / 32 * bytes}, Dtype::u8)
                                          : Tensor::zeros(shape);
  };
  return Weights(zeros, Dtype::f32, storage);
}

template <class Model>
std::int64_t count_of(const Model& model) {
  std::int64_t count = 0;
  model.visit([&](const std::string&, const Parameter& own) { count += own.value.element_count(); });
  return count;
}

// Beside the weights is what the layers round up to panels, the program's own pages, and a large page: where the system
// has one, the last of the weights takes the whole of it (without them the tests hold with 2 MiB less).
template <class Load>
void expect_memory(const Load& load, std::int64_t weights, std::int64_t while_loading) {
  const Memory added = cost(load);
  EXPECT_LE(added.resident, weights * 115 / 100 + 6 * kMebibyte) << weights;
  EXPECT_LE(added.peak, weights * 115 / 100 + 6 * kMebibyte + while_loading) << weights;
}

TEST(ModelMemory, AnEncoderKeepsItsWeightsOnce) {
  const TextEncoderConfig config{
      .vocab = 8000, .positions = 64, .types = 2, .model_dim = 512, .layers = 4, .heads = 8, .ff_dim = 2048};
  const auto build = [&](WeightStorage storage) {
    Weights weights = zero_weights(storage);
    return TextEncoder(config, weights);
  };
  const std::int64_t bytes = 4 * count_of(build(WeightStorage::full)), table = 8000 * 512 * 4, layers = bytes - table;
  EXPECT_GT(bytes, 60 * kMebibyte);
  expect_memory([&] { return build(WeightStorage::full); }, bytes, table);
  expect_memory([&] { return build(WeightStorage::bf16); }, layers / 2 + table, table);
  expect_memory([&] { return build(WeightStorage::reduced); }, layers / 2 + table, table);
  // In groups of 32 a weight of 8 bits has a scale and a sum beside it, of 4 bytes each.
  expect_memory([&] { return build(WeightStorage::int8_groups); }, layers * 5 / 16 + table, table);
  // Blocks of 32 as a file has them, tables included: 34 and 20 bytes for 128.
  expect_memory([&] { return build(WeightStorage::q8); }, bytes * 34 / 128, table * 34 / 128);
  expect_memory([&] { return build(WeightStorage::q4); }, bytes * 20 / 128, table * 20 / 128);
}

// Each of two tables that are bf16 in a file is kept in 16 bits.
TEST(ModelMemory, AnUntiedLanguageModelKeepsItsTablesInTheirOwnBits) {
  LanguageModelConfig config =
      llama_config({.vocab = 16000, .positions = 64, .model_dim = 512, .layers = 1, .heads = 8, .ff_dim = 1024});
  config.tied = false;
  const auto build = [&](WeightStorage storage) {
    Weights weights = zero_weights(storage);
    weights.set_bf16([](const std::string&) { return true; });
    return LanguageModel(config, weights);
  };
  const std::int64_t count = count_of(build(WeightStorage::full)), table = 16000 * 512 * 4;
  expect_memory([&] { return build(WeightStorage::full); }, 4 * count, table);
  expect_memory([&] { return build(WeightStorage::bf16); }, 2 * count, table);
}

TEST(ModelMemory, ATranslatorKeepsItsWeightsOnceAndLoadsThemOneByOne) {
  const TemporaryFolder folder;
  Weights weights = zero_weights();
  std::optional<TransformerEncoderDecoder> model(std::in_place,
                                                 TransformerEncoderDecoderConfig{.vocab = 8000,
                                                                                 .positions = 64,
                                                                                 .model_dim = 512,
                                                                                 .encoder_layers = 2,
                                                                                 .decoder_layers = 2,
                                                                                 .encoder_heads = 8,
                                                                                 .decoder_heads = 8,
                                                                                 .encoder_ff_dim = 2048,
                                                                                 .decoder_ff_dim = 2048,
                                                                                 .padding = 1},
                                                 weights);
  model->save(folder / "");
  const std::int64_t count = count_of(*model), table = 4 * 8000 * 512;
  model.reset();
  EXPECT_GT(count, 15'000'000);
  const auto load = [&](WeightStorage storage) { return TransformerEncoderDecoder::load(folder / "", storage); };
  expect_memory([&] { return load(WeightStorage::full); }, 4 * count, table);
  // In fewer bits the table is kept exactly as well, for what is looked up in it.
  expect_memory([&] { return load(WeightStorage::bf16); }, 2 * count + table, table);
  expect_memory([&] { return load(WeightStorage::int8); }, count + table, table);
}

}  // namespace
}  // namespace qkv::test

#endif  // QKV_SANITIZED
