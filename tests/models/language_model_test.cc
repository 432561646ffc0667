// Decoder-only models beside transformers (tests/golden/language), whole, in chunks and token by token, in every
// storage; and folders that are refused.
#include "qkv/models/language_model.h"

#include "models/models_for_test.h"

namespace qkv::test {
namespace {

using testing::difference;
using testing::largest;
using testing::same_bits;

const std::vector<std::string> kModels = {
    "gpt2", "gpt2_scaled", "llama",        "llama3", "llama_linear", "llama_yarn",      "llama_dynamic", "mistral",
    "phi3", "qwen2",       "qwen2_window", "qwen3",  "gpt_neox",     "gpt_neox_serial", "gemma2",        "gemma3"};

std::string folder_of(const std::string& name) { return golden_path("language/" + name); }

using Sequences = std::vector<std::vector<std::int32_t>>;

Sequences sequences_of(const std::map<std::string, Tensor>& golden) {
  const std::vector<std::int32_t> ids = integers(golden.at("ids")), offsets = integers(golden.at("offsets"));
  Sequences sequences;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    sequences.emplace_back(ids.begin() + offsets[b], ids.begin() + offsets[b + 1]);
  }
  return sequences;
}

// Within 1e-4 of their size: transformers takes norms and angles in f32, too.
TEST(LanguageModel, LogitsAreThoseOfTransformers) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const auto golden = golden_tensors("language/" + name + ".safetensors");
    const LanguageModel model = LanguageModel::load(folder_of(name));
    const Sequences sequences = sequences_of(golden);
    const Tensor logits = model.logits(sequences), hidden = model.hidden(sequences);
    EXPECT_LE(difference(logits, golden.at("logits")), 1e-5 * largest(golden.at("logits")));
    EXPECT_LE(difference(hidden, golden.at("hidden")), 1e-5 * largest(golden.at("hidden")));
    const Tensor alone = model.logits(Sequences{sequences[2]}, {.threads = 1});
    EXPECT_TRUE(same_bits(alone, logits.view().slice(0, 6, 29)));
  }
}

// 200 tokens, or as many as come before a step whose two best logits are within 1e-4.
TEST(LanguageModel, GreedyTokensAreThoseOfTransformers) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const auto golden = golden_tensors("language/" + name + ".safetensors");
    const LanguageModel model = LanguageModel::load(folder_of(name));
    const Sequences all = sequences_of(golden), prompts{all[0], all[1]};
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::vector<std::int32_t> wanted = integers(golden.at("greedy_" + std::to_string(i)));
      std::vector<std::int32_t> written;
      while (written.size() < wanted.size()) {  // token 0 ends a sequence, which goes on here
        Sequences so_far{prompts[i]};
        so_far[0].insert(so_far[0].end(), written.begin(), written.end());
        const auto next = model.next_tokens(so_far);
        const auto found = generate(*next, so_far, {.max_length = std::ssize(wanted) - std::ssize(written)});
        const std::vector<std::int32_t>& more = found.front().front().tokens;
        written.insert(written.end(), more.begin(), more.end());
      }
      EXPECT_EQ(written, wanted) << i;
    }
  }
}

// What each step gives behind these prompts, if `tokens` follow.
Tensor steps(const LanguageModel& model, const Sequences& prompts, const std::vector<std::int32_t>& tokens,
             const PromptOptions& options) {
  const auto next = model.next_tokens(prompts, options);
  std::vector<std::int64_t> rows(prompts.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  Tensor all = Tensor::uninitialized({1 + std::ssize(tokens), std::ssize(prompts), model.config().vocab});
  convert(next->step(rows, std::vector<std::int32_t>(prompts.size())), all.view().select(0, 0));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    convert(next->step(rows, std::vector<std::int32_t>(prompts.size(), tokens[i])),
            all.view().select(0, static_cast<std::int64_t>(i) + 1));
  }
  return all;
}

// Prompts of one token and of more than two, in company and alone, read in chunks of any size on any threads.
TEST(LanguageModel, ChunksCompanyAndThreadsChangeNoBit) {
  for (const std::string& name : kModels) {
    for (const WeightStorage storage :
         {WeightStorage::full, WeightStorage::bf16, WeightStorage::int8, WeightStorage::int8_groups}) {
      SCOPED_TRACE(name);
      const LanguageModel model = LanguageModel::load(folder_of(name), storage);
      const Sequences prompts = sequences_of(golden_tensors("language/" + name + ".safetensors"));
      const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5};
      const Tensor whole = steps(model, prompts, tokens, {.threads = 1});
      for (const std::int64_t chunk : {1, 2, 3, 7, 22, 64}) {
        EXPECT_TRUE(same_bits(steps(model, prompts, tokens, {.chunk = chunk, .threads = 5}), whole)) << chunk;
      }
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        EXPECT_TRUE(same_bits(steps(model, {prompts[i]}, tokens, {.threads = 2}).view().select(1, 0),
                              Tensor::copy(whole.view().select(1, at))))
            << i;
      }
    }
  }
}

// Blocks of a file (golden/gguf/make_blocks.py) are its numbers, to the last bit, in prompts, in steps and in
// gradients.
TEST(LanguageModel, BlocksAreTheNumbersOfTheFile) {
  const std::string file = golden_path("gguf/blocks.gguf");
  const Sequences prompts{{5, 9, 14, 3, 77, 250, 31}, {8}};
  const std::vector<std::int32_t> tokens{3, 1, 4};
  struct Gradients : Observer {
    void receive(std::string_view name, const TensorView& value) override {
      all[std::string(name)] = Tensor::copy(value);
    }
    std::map<std::string, Tensor> all;
  };
  const auto gradients_of = [&](const LanguageModel& model) {
    Gradients gradients;
    model.observe_gradients(prompts[0], 5, 12, gradients);
    return gradients.all;
  };
  for (const Target& target : targets()) {
    if (!target.usable) continue;
    SCOPED_TRACE(target.name);
    select_target(target.name);
    const LanguageModel full = LanguageModel::load(file);
    const auto gradients = gradients_of(full);
    EXPECT_FALSE(gradients.empty());
    for (const WeightStorage storage : {WeightStorage::q8, WeightStorage::q4}) {
      const LanguageModel model = LanguageModel::load(file, storage);
      EXPECT_TRUE(same_bits(model.logits(prompts), full.logits(prompts)));
      EXPECT_TRUE(same_bits(steps(model, prompts, tokens, {}), steps(full, prompts, tokens, {})));
      for (const auto& [name, values] : gradients_of(model)) EXPECT_TRUE(same_bits(values, gradients.at(name))) << name;
    }
  }
  select_target("");
  EXPECT_THROW(LanguageModel::load(golden_path("gguf/llama.gguf"), WeightStorage::q4), FormatError);
}

// Rows of weights while tokens are read one by one, of prompts in company and in chunks, beside output_attentions
// (golden/language/explain.py); and the same bits of logits as without.
TEST(LanguageModel, WeightsOfHeadsAreThoseOfTransformersAndChangeNoBit) {
  for (const std::string name : {"gpt2", "llama", "mistral", "qwen3", "gpt_neox", "gemma2"}) {
    SCOPED_TRACE(name);
    const LanguageModel model = LanguageModel::load(folder_of(name));
    const auto golden = golden_tensors("language/" + name + "_explain.safetensors");
    const std::vector<std::int32_t> ids = integers(golden.at("ids"));
    const TensorView wanted = golden.at("attentions");
    const std::vector<LayerHead> heads{{1, 1}, {0, 1}, {1, 0}};
    constexpr std::size_t kPrompt = 5;
    const Sequences prompts{{7, 7, 7}, std::vector(ids.begin(), ids.begin() + kPrompt)};
    for (const std::int64_t chunk : {0, 2}) {
      std::vector<std::vector<std::vector<float>>> rows(heads.size());
      PromptOptions options{.chunk = chunk, .heads = heads};
      options.on_weights = [&](std::size_t prompt, std::size_t head, std::span<const float> weights) {
        if (prompt == 1) rows[head].emplace_back(weights.begin(), weights.end());
      };
      const auto next = model.next_tokens(prompts, options), plain = model.next_tokens(prompts, {.chunk = chunk});
      const auto step = [&](const std::vector<std::int64_t>& parents, std::int32_t token) {
        const std::vector<std::int32_t> tokens(parents.size(), token);
        const Tensor logits = Tensor::copy(next->step(parents, tokens));
        EXPECT_TRUE(same_bits(logits, Tensor::copy(plain->step(parents, tokens))));
      };
      step({1, 0}, 0);
      for (std::size_t i = kPrompt; i < 8; ++i) step({0, 1}, ids[i]);
      for (std::size_t i = 8; i < 12; ++i) step({0}, ids[i]);
      for (std::size_t h = 0; h < heads.size(); ++h) {
        ASSERT_EQ(rows[h].size(), 13 - kPrompt);
        for (std::size_t i = 0; i < rows[h].size(); ++i) {
          const auto query = static_cast<std::int64_t>(kPrompt - 1 + i);
          ASSERT_EQ(std::ssize(rows[h][i]), query + 1);
          for (std::int64_t j = 0; j <= query; ++j) {
            EXPECT_NEAR(rows[h][i][static_cast<std::size_t>(j)],
                        wanted.at<float>({heads[h].layer, heads[h].head, query, j}), 1e-5);
          }
        }
      }
    }
  }
}

// Runs of tokens, each a row, beside the same tokens one step after the other; then some of them go on, others begin.
TEST(LanguageModel, RunsAndThoseThatBeginLaterHaveTheBitsOfSingleSteps) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const LanguageModel model = LanguageModel::load(folder_of(name), WeightStorage::bf16);
    const Sequences prompts = sequences_of(golden_tensors("language/" + name + ".safetensors"));
    const std::vector<std::int32_t> tokens{3, 1, 4, 1, 5, 9};
    const std::vector<Tensor> wanted = {steps(model, {prompts[0]}, tokens, {}), steps(model, {prompts[1]}, tokens, {}),
                                        steps(model, {prompts[2]}, tokens, {})};
    const auto next = model.next_tokens(prompts);
    const auto expect = [&](const MutableTensorView& logits, std::int64_t row, std::size_t prompt, std::int64_t read) {
      EXPECT_TRUE(
          same_bits(Tensor::copy(logits.slice(0, row, row + 1)), Tensor::copy(wanted[prompt].view().select(0, read))))
          << prompt << " after " << read;
    };
    using Numbers = std::vector<std::int64_t>;
    using Ids = std::vector<std::int32_t>;
    expect(next->step(Numbers{2}, Ids{0}), 0, 2, 0);
    MutableTensorView logits = next->step_runs(Numbers{0, -1}, Ids{3, 1, 7, 0}, Numbers{3, 1});
    expect(logits, 0, 2, 1);
    expect(logits, 1, 2, 2);
    expect(logits, 3, 0, 0);  // row 2 followed a token that is not among ours
    logits = next->step_runs(Numbers{3, 1, -2}, Ids{3, 4, 1, 5, 0}, Numbers{1, 3, 1});
    expect(logits, 0, 0, 1);
    for (std::int64_t i = 0; i < 3; ++i) expect(logits, 1 + i, 2, 3 + i);
    expect(logits, 4, 1, 0);
  }
}

// Prompts that begin with the same tokens, down to all of them, together and while others go on; in chunks, too.
TEST(LanguageModel, BeginningsThatPromptsShareChangeNoBit) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const LanguageModel model = LanguageModel::load(folder_of(name));
    std::vector<std::int32_t> text;
    for (std::int32_t i = 0; i < 50; ++i) text.push_back(i * i % 37);
    Sequences prompts;
    for (const std::size_t length : {50, 50, 30, 31, 47, 18, 17, 16, 1}) {
      prompts.emplace_back(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
    }
    for (const std::int32_t last : {1, 2, 3}) {
      prompts.push_back(prompts[2]);
      prompts.back().insert(prompts.back().end(), {last, 5, last});
    }
    for (const std::int64_t chunk : {0, 7}) {
      const Tensor all = steps(model, prompts, {3, 1, 4}, {.chunk = chunk});
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_TRUE(same_bits(steps(model, {prompts[i]}, {3, 1, 4}, {}).view().select(1, 0),
                              Tensor::copy(all.view().select(1, static_cast<std::int64_t>(i)))))
            << i;
      }
    }
    // The first goes on by 3 when the last begins.
    const auto next = model.next_tokens(prompts);
    const std::vector<std::int64_t> first{0}, both{0, -12};
    next->step(first, std::vector<std::int32_t>{0});
    const Tensor logits = Tensor::copy(next->step(both, std::vector<std::int32_t>{3, 0}));
    EXPECT_TRUE(same_bits(logits.view().slice(0, 0, 1), steps(model, {prompts[0]}, {3}, {}).view().select(0, 1)));
    EXPECT_TRUE(same_bits(logits.view().slice(0, 1, 2), steps(model, {prompts[11]}, {}, {}).view().select(0, 0)));
  }
}

// GreedyTokensAreThoseOfTransformers has what is written then.
TEST(LanguageModel, LayersWithAWindowKeepOnlyThePagesThatItSees) {
  const LanguageModel model = LanguageModel::load(folder_of("qwen2_window"));
  StackCache cache = model.make_cache();
  const Sequences prompts{std::vector<std::int32_t>(40, 3)};
  const auto next = model.next_tokens(prompts, {.chunk = 16, .cache = &cache});
  generate(*next, prompts, {.ends = {}, .max_length = 60});
  int windows = 0;
  for (std::size_t i = 0; i < cache.layers.size(); ++i) {
    const KeyValueCache& own = cache.layers[i].self;
    const auto& window = model.config().layers[i].window;
    windows += window ? 1 : 0;
    EXPECT_EQ(own.length(0), 99);
    // Pages of 16 tokens: before the window of the last token there is less than one.
    const std::int64_t first = window ? 98 - window->left : 0;
    EXPECT_EQ(own.first_kept(0), first / 16 * 16);
    EXPECT_EQ(own.keys().size(0) <= 4, window.has_value());
  }
  EXPECT_GT(windows, 0);
  EXPECT_LT(windows, std::ssize(cache.layers));
}

// Of logits that are about 1; with the same bits however prompts are cut, and in runs.
TEST(LanguageModel, CachesOfFewerBitsChangeLittle) {
  for (const std::string name : {"gpt2", "llama", "gemma3"}) {
    for (const auto& [type, bound] : {std::pair{Dtype::bf16, 0.03}, {Dtype::f16, 0.004}}) {
      SCOPED_TRACE(name);
      const LanguageModel model = LanguageModel::load(folder_of(name));
      const Sequences prompts = sequences_of(golden_tensors("language/" + name + ".safetensors"));
      const std::vector<std::int32_t> tokens{3, 1, 4};
      const Tensor wanted = steps(model, prompts, tokens, {}),
                   found = steps(model, prompts, tokens, {.cache_type = type});
      EXPECT_LE(difference(found, wanted), bound * largest(wanted));
      EXPECT_GT(difference(found, wanted), 1e-6 * largest(wanted));
      EXPECT_TRUE(same_bits(steps(model, prompts, tokens, {.chunk = 7, .cache_type = type, .threads = 3}), found));
      const auto next = model.next_tokens(prompts, {.cache_type = type});
      const std::vector<std::int64_t> first{2}, again{0}, three{3};
      next->step(first, std::vector<std::int32_t>{0});
      const Tensor run = Tensor::copy(next->step_runs(again, tokens, three));
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(same_bits(run.view().select(0, i), found.view().select(0, i + 1).select(0, 2))) << i;
      }
    }
  }
}

// Fewer bits change little: of logits that are about 1.
TEST(LanguageModel, StoragesAreNearTheFullOne) {
  for (const std::string name : {"gpt2", "llama", "gemma3"}) {
    const auto golden = golden_tensors("language/" + name + ".safetensors");
    const double size = largest(golden.at("logits"));
    for (const auto& [storage, bound] : {std::pair{WeightStorage::bf16, 0.03}, {WeightStorage::int8_groups, 0.3}}) {
      const LanguageModel model = LanguageModel::load(folder_of(name), storage);
      const double error = difference(model.logits(sequences_of(golden)), golden.at("logits")) / size;
      EXPECT_LE(error, bound) << name;
      EXPECT_GT(error, 1e-5) << name;
    }
  }
}

TEST(LanguageModel, CallsThatDoNotFitAreRefused) {
  const LanguageModel model = LanguageModel::load(folder_of("gpt2"));
  const auto refused = [](const std::function<void()>& call) { return message_of<std::invalid_argument>(call); };
  EXPECT_EQ(refused([&] { model.logits(Sequences{{300}}); }), "embedding: id 300 is not in a table of 300 rows");
  EXPECT_EQ(refused([&] { model.logits(Sequences{std::vector<std::int32_t>(257)}); }),
            "language_model: a sequence has 257 tokens; the model reads at most 256");
  EXPECT_EQ(refused([&] { model.next_tokens(Sequences{{1}, {}}); }),
            "language_model: a prompt is empty; it needs a token");
  const auto full = model.next_tokens(Sequences{std::vector<std::int32_t>(256)});
  full->step(std::vector<std::int64_t>{0}, std::vector<std::int32_t>{0});
  EXPECT_EQ(refused([&] { full->step(std::vector<std::int64_t>{0}, std::vector<std::int32_t>{0}); }),
            "language_model: a sequence has 257 tokens; the model reads at most 256");
  EXPECT_EQ(refused([&] { model.next_tokens(Sequences{{1}}, {.heads = {{0, 1}, {3, 0}}}); }),
            "language_model: there is no head 3.0; the layers are 0 to 2, the heads 0 to 1");
  EXPECT_EQ(model.logits({}).shape(), (Dims{0, 300}));
  StackCache cache = model.make_cache();
  const std::string unfit = "language_model: a cache must hold a prefix of one prompt, equally long in each layer";
  EXPECT_EQ(refused([&] { model.next_tokens(Sequences{{1}, {2}}, {.cache = &cache}); }), unfit);
  cache.layers.pop_back();
  EXPECT_EQ(refused([&] { model.next_tokens(Sequences{{1}}, {.cache = &cache}); }), unfit);
}

TEST(LanguageModel, FoldersOfAnotherKindAreRefused) {
  expect_configs_refused<LanguageModel>("language/llama_linear", R"(
/model_type = "mixtral" => model_type is "mixtral"; the supported language models are "gpt2", "gpt_neox", "llama",
    "mistral", "phi3", "qwen2", "qwen3", "gemma2" and "gemma3_text"
/quantization_config = {"bits": 4} => quantization_config must be null for this model
/rope_parameters/rope_type = "longrope" => rope_parameters.rope_type is "longrope"; the supported scalings of rotary
    positions are "default", "linear", "dynamic", "yarn" and "llama3"
/rope_parameters/factor => rope_parameters.factor is missing
/rope_parameters/factor = 0.5 => rope_parameters.factor must be 1 or more
/rope_parameters/rope_theta = 0 => rope_parameters.rope_theta must be above 0
/rope_parameters/partial_rotary_factor = 0.5 => rope_parameters.partial_rotary_factor must be 1 for this model
/partial_rotary_factor = 0.5 => partial_rotary_factor must be 1 for this model
/num_key_value_heads = 3 => num_key_value_heads is 3, must divide num_attention_heads, 4
)");
  const GoldenCopy untied("language/llama_linear");
  nlohmann::json config = untied.config;
  config["tie_word_embeddings"] = true;
  untied.put("config.json", config.dump());
  EXPECT_TRUE(message_of<FormatError>([&] {
                LanguageModel::load(untied / "");
              }).ends_with("tensor \"lm_head.weight\" must be equal to model.embed_tokens.weight: they are tied"));
  expect_configs_refused<LanguageModel>("language/phi3", R"(
/rope_parameters/partial_rotary_factor = 0.3 => rope_parameters would rotate 1 of 4 elements of a head; they must be pairs
)");
  expect_configs_refused<LanguageModel>("language/qwen2_window", R"(
/layer_types = ["full_attention"] => layer_types must have 2 elements, one for each layer
/layer_types/1 = "chunked" => layer_types[1] is "chunked", must be "full_attention" or "sliding_attention"
/sliding_window = 0 => sliding_window is 0, must be 1 to 2147483648
)");
  expect_configs_refused<LanguageModel>("language/gpt2", R"(
/add_cross_attention = true => add_cross_attention must be false for this model
/n_head = 3 => n_head is 3, must divide n_embd, 16
/n_positions = 255 => model.safetensors: tensor "transformer.wpe.weight" is [256, 16]; it must be [255, 16]
)");
}

}  // namespace
}  // namespace qkv::test
