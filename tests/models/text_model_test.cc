// Heads of encoders against transformers (golden/heads, made by make.py there), and folders whose head is not the one.
#include "qkv/models/text_model.h"

#include "models/models_for_test.h"

namespace qkv::test {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, TextTask> kTasks[] = {{"masked_word", TextTask::masked_word},
                                                       {"sequence_class", TextTask::sequence_class},
                                                       {"pair_score", TextTask::sequence_class},
                                                       {"token_class", TextTask::token_class},
                                                       {"answer", TextTask::answer}};

const json& golden_configs() {
  static const json configs = json::parse(slurp(golden_path("heads/configs.json")));
  return configs;
}

// The folder of one task of golden/heads/MODEL.safetensors.
struct HeadFolder : TemporaryFolder {
  HeadFolder(const std::string& model, const std::string& task)
      : config(golden_configs().at(model + "/" + task)), golden(golden_tensors("heads/" + model + ".safetensors")) {
    for (const auto& [name, tensor] : golden) {
      const std::size_t slash = name.find('/');
      if (name.starts_with(task + "/") && !name.starts_with(task + "/out")) {
        weights.tensors[name.substr(slash + 1)] = tensor;
      } else if (slash == std::string::npos && name.find('.') != std::string::npos) {
        weights.tensors[name] = tensor;
      }
    }
    write();
  }

  void write() {
    put("config.json", config.dump());
    write_safetensors(*this / "model.safetensors", weights);
  }
  TokenBatch tokens() const { return {integers(golden.at("ids")), integers(golden.at("types")), golden.at("offsets")}; }

  json config;
  std::map<std::string, Tensor> golden;
  SafeTensors weights{};
};

QKV_ON_EACH_TARGET(TextHeads);

TEST_P(TextHeads, AgreeWithTransformers) {
  for (const std::string kind : {"bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "modernbert", "albert"}) {
    for (int shape = 0; shape < 3; ++shape) {
      for (const auto& [name, task] : kTasks) {
        const std::string model = fmt::format("{}_{}", kind, shape), out = name + std::string("/out");
        SCOPED_TRACE(model + " " + name);
        const HeadFolder folder(model, name);
        const Tensor logits = TextModel::load(folder / "", task).logits(folder.tokens());
        // ModernBERT's layers add to rows that no norm brings back to size: without fused multiply-add the rest of one
        // shape is 1.2e-6.
        const double floor = std::string(kind) == "modernbert" ? 2e-6 : 1e-6;
        expect_as_close(logits, folder.golden.at(out), folder.golden.at(out + "_f64"), floor);
      }
    }
  }
}

// Sequences beyond the windows.
TEST_P(TextHeads, HiddenStatesOfModernBertAgreeWithTransformers) {
  for (int shape = 0; shape < 3; ++shape) {
    const HeadFolder folder(fmt::format("modernbert_{}", shape), "masked_word");
    const Tensor hidden = TextEncoder::load(folder / "").forward(folder.tokens());
    expect_as_close(hidden, folder.golden.at("hidden/out"), folder.golden.at("hidden/out_f64"), 1e-6);
  }
}

TEST(TextModel, LogitsOfSomeRowsAreThoseOfAll) {
  const HeadFolder folder("bert_2", "masked_word");
  const TextModel model = TextModel::load(folder / "", TextTask::masked_word);
  const TokenBatch tokens = folder.tokens();
  const Tensor all = model.logits(tokens);
  const std::int64_t rows[] = {29, 0, 6};
  const Tensor some = model.logits_of(rows, tokens);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(testing::same_bits(some.view().slice(0, i, i + 1), all.view().slice(0, rows[i], rows[i] + 1)));
  }
  const std::int64_t outside[] = {30};
  EXPECT_EQ(message_of<std::invalid_argument>([&] { model.logits_of(outside, tokens); }),
            "text_model: there is no row 30 of 30");
  const HeadFolder classes("bert_0", "sequence_class");
  EXPECT_EQ(message_of<std::invalid_argument>(
                [&] { TextModel::load(classes / "", TextTask::sequence_class).logits_of(rows, classes.tokens()); }),
            "text_model: a head of whole sequences has no rows");
}

TEST(TextModel, ReadsNamesOfOldAndTables) {
  HeadFolder folder("bert_0", "masked_word");
  const auto logits = [&] {
    folder.write();
    return TextModel::load(folder / "", TextTask::masked_word).logits(folder.tokens());
  };
  const Tensor expected = logits();
  SafeTensors old;
  for (const auto& [name, tensor] : folder.weights.tensors) {
    std::string renamed = name;
    for (const auto& [today, before] :
         {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (name.ends_with(today)) renamed.replace(name.rfind(today), std::string::npos, before);
    }
    old.tensors[renamed] = tensor;
  }
  std::swap(folder.weights, old);
  EXPECT_TRUE(testing::same_bits(logits(), expected));
  const TextModel begun = TextModel::begin(folder / "", {.task = TextTask::masked_word}, 1);
  EXPECT_TRUE(testing::same_bits(begun.logits(folder.tokens()), expected));
  const Tensor& table = folder.weights.tensors.at("bert.embeddings.word_embeddings.weight");
  folder.weights.tensors["cls.predictions.decoder.weight"] = table;
  EXPECT_TRUE(testing::same_bits(logits(), expected));
  folder.config["tie_word_embeddings"] = false;
  folder.weights.tensors["cls.predictions.decoder.weight"] = Tensor::zeros(table.shape());
  const Tensor bias_alone = logits();
  const Tensor& bias = folder.weights.tensors.at("cls.predictions.bias");
  EXPECT_TRUE(testing::same_bits(bias_alone.view().slice(0, 3, 4).reshape(bias.shape()), bias));
}

TEST(TextModel, RefusesAnotherHead) {
  struct Case {
    const char* golden;
    TextTask task;
    std::function<void(HeadFolder&)> change;
    const char* message;
  };
  const auto unnamed = [](HeadFolder& folder) { folder.config.erase("architectures"); };
  const Case cases[] = {
      {"token_class", TextTask::sequence_class, [](HeadFolder&) {},
       "config.json: architectures[0] is \"BertForTokenClassification\", must end with ForSequenceClassification: the "
       "model has another head"},
      {"answer", TextTask::masked_word, [](HeadFolder&) {},
       "config.json: architectures[0] is \"BertForQuestionAnswering\", must end with ForMaskedLM: the model has "
       "another "
       "head"},
      {"masked_word", TextTask::answer, unnamed, "model.safetensors: tensor \"qa_outputs.weight\" [2, 12] is missing"},
      {"sequence_class", TextTask::sequence_class, [](HeadFolder& folder) { folder.config["id2label"].erase("2"); },
       "model.safetensors: tensor \"classifier.weight\" is [3, 12]; it must be [2, 12]"},
      {"token_class", TextTask::token_class, [](HeadFolder& folder) { folder.config["id2label"].erase("2"); },
       "config.json: id2label has 4 names, but none for 2"},
      {"masked_word", TextTask::masked_word,
       [](HeadFolder& folder) { folder.weights.tensors["cls.predictions.decoder.weight"] = Tensor::zeros({30, 12}); },
       "model.safetensors: tensor \"cls.predictions.decoder.weight\" must be equal to "
       "bert.embeddings.word_embeddings.weight: they are tied"}};
  for (const auto& [golden, task, change, message] : cases) {
    HeadFolder folder("bert_0", golden);
    change(folder);
    folder.write();
    const std::string refusal = message_of<FormatError>([&] { TextModel::load(folder / "", task); });
    EXPECT_EQ(refusal.substr(refusal.rfind("//") + 2), message);
  }
  const HeadFolder folder("bert_0", "sequence_class");
  const TokenBatch batch{{3, 4}, {0, 0}, offsets_for({2, 0})};
  const TextModel model = TextModel::load(folder / "", TextTask::sequence_class);
  EXPECT_EQ(message_of<std::invalid_argument>([&] { model.logits(batch); }), "text_model: sequence 1 has no tokens");
}

}  // namespace
}  // namespace qkv::test
