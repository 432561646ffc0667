// Fine-tuning encoders: the losses and weights of torch (tests/golden/text_training), files of labelled texts, that it
// learns and resumes, what its folder is, what it refuses.
#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/text_model.h"
#include "qkv/pipelines/text_classifier.h"
#include "qkv/train/train_files.h"
#include "train/data/labelled_texts.h"
#include "train/data/labelled_words.h"
#include "train/text_files.h"
#include "train/trained_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

// 20 steps of plain gradient descent, and what save() writes then, by transformers' names.
TEST(TextTraining, LossesAndWeightsAreThoseOfTorch) {
  for (const auto& [name, task] :
       std::vector<std::pair<std::string, TextTask>>{{"bert", TextTask::sequence_class},
                                                     {"bert_tokens", TextTask::token_class},
                                                     {"bert_masked", TextTask::masked_word},
                                                     {"bert_several", TextTask::sequence_class},
                                                     {"bert_number", TextTask::sequence_class},
                                                     {"roberta", TextTask::sequence_class},
                                                     {"distilbert", TextTask::sequence_class},
                                                     {"mpnet", TextTask::sequence_class},
                                                     {"modernbert", TextTask::sequence_class},
                                                     {"modernbert_masked", TextTask::masked_word},
                                                     {"albert", TextTask::sequence_class},
                                                     {"albert_masked", TextTask::masked_word}}) {
    SCOPED_TRACE(name);
    const std::string folder = QKV_TEST_DATA "/golden/text_training/" + name;
    const auto golden = read_safetensors(folder + ".safetensors").tensors;
    const auto integers = [&](const char* key) {
      const Tensor& all = golden.at(key);
      return std::vector(all.data<std::int32_t>(), all.data<std::int32_t>() + all.element_count());
    };
    LabelledTokens batch{{integers("ids"), integers("types"), Tensor::copy(golden.at("offsets").view())}, {}};
    if (golden.contains("targets")) {
      const Tensor& all = golden.at("targets");
      batch.values.assign(all.data<float>(), all.data<float>() + all.element_count());
    } else {
      batch.labels = integers("labels");
    }
    TextModel model = TextModel::load(folder, task);
    model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
    for (std::int64_t step = 0; step < 20; ++step) {
      const LossSum before = model.loss(batch), sum = model.backward(batch, {});
      EXPECT_EQ(before.nll, sum.nll);
      EXPECT_EQ(before.metric, sum.metric);
      const double scale = 1 / static_cast<double>(sum.count), rate = golden.at("rate").data<double>()[0];
      EXPECT_NEAR(sum.sum * scale, golden.at("losses").data<double>()[step], 1e-5) << step;
      model.update([&](const std::string&, Parameter& own) {
        for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
          own.value.data<float>()[i] -= static_cast<float>(rate * scale) * own.gradient.data<float>()[i];
        }
        own.want_gradient();
      });
    }
    const test::TemporaryFolder out;
    model.save(out / "", folder);
    const auto saved = read_safetensors(out / "model.safetensors").tensors;
    EXPECT_EQ(std::ranges::count_if(golden, [](const auto& each) { return each.first.starts_with("after/"); }),
              std::ssize(saved));
    for (const auto& [key, value] : saved)
      EXPECT_LE(test::largest_difference(value, golden.at("after/" + key)), 1e-5) << key;
    EXPECT_EQ(TextModel::load(out / "", task).config().labels, model.config().labels);
    EXPECT_EQ(TextModel::load(out / "", task).config().problem, model.config().problem);
  }
}

class TextFiles : public test::TrainedFiles {
 protected:
  TextFiles() { files_ = test::tiny_texts(folder_); }
  std::vector<training::LabelledText> read(const std::string& name, const std::string& text, bool pairs = false) {
    return training::read_labelled_texts(folder_.put(name, text), {.second = pairs}, std::vector<std::string>{"[SEP]"},
                                         {});
  }
  std::string refusal(const std::string& name, const std::string& text, bool pairs = false) {
    const std::string message = test::message_of<FormatError>([&] { read(name, text, pairs); });
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message.substr(message.find(name));
  }
};

TEST_F(TextFiles, ColumnsCsvAndJsonAreTheSame) {
  const auto tabs = read("x.tsv", "a, \"b\"\tgood\nc\tbad\n");
  const auto csv = read("x.csv", "id,label,text\n1,good,\"a, \"\"b\"\"\"\n2,bad,c\n");
  const auto json =
      read("x.jsonl", "{\"text\": \"a, \\\"b\\\"\", \"label\": \"good\"}\n{\"label\": \"bad\", \"text\": \"c\"}\n");
  for (const auto* found : {&tabs, &csv, &json}) {
    ASSERT_EQ(found->size(), 2u);
    EXPECT_EQ(found->at(0).text, "a, \"b\"");
    EXPECT_EQ(found->at(0).label, "good");
    EXPECT_FALSE(found->at(0).second.has_value());
    EXPECT_EQ(found->at(1).text, "c");
  }
  EXPECT_EQ(csv[1].line, 3);
  EXPECT_EQ(training::labels_of(tabs), (std::vector<std::string>{"bad", "good"}));
  EXPECT_EQ(read("y.jsonl", "{\"text\": \"a\", \"label\": 1}\n")[0].label, "1");
  EXPECT_EQ(read("y.csv", "text,label\n\"two\nlines\",x\nc,y\n")[0].text, "two\nlines");
  const auto pair = read("y.tsv", "one\ttwo\tyes\n", true);
  EXPECT_EQ(pair[0].second, "two");
  EXPECT_EQ(pair[0].label, "yes");
}

TEST_F(TextFiles, WhatBreaksARuleIsRefused) {
  EXPECT_EQ(refusal("a.tsv", "x\ty\nx\n"), "a.tsv: line 2 has 1 column; it must be a text, a tab and a label");
  EXPECT_EQ(refusal("a.tsv", "x\ty\n", true),
            "a.tsv: line 1 has 2 columns; it must be a text, a tab, a text, a tab and a label");
  EXPECT_EQ(refusal("a.tsv", " \ty\n"), "a.tsv: line 1 has an empty text");
  EXPECT_EQ(refusal("a.tsv", "x\t\n"), "a.tsv: line 1 has an empty label");
  EXPECT_EQ(refusal("a.tsv", "x [SEP]\ty\n"), "a.tsv: line 1 holds the special token [SEP]");
  test::expect_contains(refusal("a.tsv", "x\ty\n\xff\ty\n"), "line 2");
  EXPECT_EQ(refusal("a.csv", "text,class\nx,y\n"), "a.csv: line 1 names no column \"label\"");
  EXPECT_EQ(refusal("a.csv", "text,label\nx,y,z\n"), "a.csv: line 2 has 3 columns; the header has 2");
  EXPECT_EQ(refusal("a.csv", "text,label\n\"x,y\n"), "a.csv: line 2 has a quote that does not end");
  EXPECT_EQ(refusal("a.jsonl", "{\"text\": \"x\"}\n"), "a.jsonl: line 1: label is missing");
}

TEST_F(TextFiles, LabelsAndFoldersThatDoNotFitAreRefused) {
  const std::string valid = files_.valid;
  files_.valid = folder_.put("other.tsv", "one two\teven\nthree\tneither\n");
  test::expect_refusal<FormatError>([&] { train_files(files_); },
                                    "other.tsv: line 2 has the label \"neither\", which is not in the training data");
  files_.valid = valid;
  const std::string train = files_.train;
  files_.train = folder_.put("one.tsv", "one\teven\n");
  test::expect_refusal<std::invalid_argument>([&] { train_files(files_); }, "one.tsv has one label");
  files_.train = folder_.put("special.tsv", "one [SEP]\teven\n");
  test::expect_refusal<FormatError>([&] { train_files(files_); }, "special.tsv: line 1 holds the special token [SEP]");
  files_.train = train;
  files_.from.clear();
  test::expect_refusal<std::invalid_argument>([&] { train_files(files_); }, "(--from)");
  EXPECT_FALSE(fs::exists(files_.out));
}

// A new head over the encoder; then that model's head goes on, with the same labels.
TEST_F(TextFiles, LearnsAndItsFolderClassifies) {
  test::Watcher watcher;
  const TrainingResult result = train_files(files_, {.observer = &watcher});
  EXPECT_EQ(result.best_metric->name, "accuracy");
  EXPECT_EQ(result.best_metric->value, 1.0);
  const TextClassifier classifier = TextClassifier::load(files_.out);
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(classifier.classify("w1 w2 w3")[0].label, "odd");
  EXPECT_EQ(classifier.classify("w1 w2 w1 w2")[0].label, "even");
  test::expect_contains(test::slurp(files_.out + "/config.json"), "\"BertForSequenceClassification\"");
  files_.from = files_.out;
  files_.out = folder_ / "further";
  watcher.validations.clear();
  train_files(files_, {.observer = &watcher});
  EXPECT_GT(watcher.validations.front().metric->value, 0.9);
}

TEST_F(TextFiles, HasTheSameBitsOnAnyThreadsAndAfterAnInterruption) { expect_same_bits({7, 25}); }

// The files of a training on the numbers 0 to 5, or on which of two words a text has.
TEST_F(TextFiles, NumbersLearn) {
  files_.config = folder_.put(
      "numbers.json", test::edited(test::kTinyTexts, "\"classes\"", "\"classes\", \"problem_type\": \"regression\""));
  const auto lines = [](int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      const int words = 1 + i % 6;
      for (int w = 0; w < words; ++w) text += (w == 0 ? "w" : " w") + std::to_string((i * 3 + w) % 7);
      text += "\t" + std::to_string(words * 0.5) + "\n";
    }
    return text;
  };
  files_.train = folder_.put("numbers.tsv", lines(0, 60));
  files_.valid = folder_.put("others.tsv", lines(60, 12));
  test::Watcher watcher;
  const TrainingResult result = train_files(files_, {.observer = &watcher});
  EXPECT_EQ(result.best_metric->name, "explained_variance");
  EXPECT_GT(result.best_metric->value, 0.5);
  const double variance = 35.0 / 12 / 4;  // of 1 to 6, halved
  EXPECT_NEAR(result.best_metric->value, 1 - result.best_loss / variance, 1e-9);
  const TextClassifier classifier = TextClassifier::load(files_.out);
  EXPECT_EQ(classifier.scores(), ClassScores::logits);
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"LABEL_0"}));
}

TEST_F(TextFiles, SeveralLabelsLearn) {
  files_.config = folder_.put(
      "several.json",
      test::edited(test::kTinyTexts, "\"classes\"", "\"classes\", \"problem_type\": \"multi_label_classification\""));
  std::string text;
  for (int i = 0; i < 49; ++i) {
    const int a = i % 7, b = i / 7;
    text += "w" + std::to_string(a) + " w" + std::to_string(b) + "\t";
    if (a == 0 || b == 0) text += "none";
    if (a > 4 || b > 4) text += a == 0 || b == 0 ? ", many" : "many";
    text += "\n";
  }
  files_.train = files_.valid = folder_.put("several.tsv", text);
  test::Watcher watcher;
  const TrainingResult result = train_files(files_, {.observer = &watcher});
  EXPECT_GT(result.best_metric->value, 0.95);
  const TextClassifier classifier = TextClassifier::load(files_.out);
  const auto found = classifier.classify("w0 w6", 2);
  EXPECT_GT(found[0].probability, 0.5);
  EXPECT_GT(found[1].probability, 0.5);
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"many", "none"}));
}

TEST_F(TextFiles, ValuesAreReadAndWhatIsNoneIsRefused) {
  const auto read = [&](const char* name, const std::string& text, TextProblem problem) {
    return training::read_labelled_texts(folder_.put(name, text), {.problem = problem}, {}, {});
  };
  const auto refused = [&](const char* name, const std::string& text, TextProblem problem) {
    const std::string message = test::message_of<FormatError>([&] { read(name, text, problem); });
    return message.substr(message.find(name));
  };
  const Tokenizer tokenizer = Tokenizer::load(files_.from + "/tokenizer.json", 30);
  for (const auto& [name, text] :
       {std::pair("x.tsv", "w1\tb, a\nw2\t\nw3\ta\n"), std::pair("x.csv", "text,label\nw1,\"b,a\"\nw2,\nw3,a\n"),
        std::pair("x.jsonl",
                  "{\"text\": \"w1\", \"label\": [\"a\", \"b\"]}\n{\"text\": \"w2\", "
                  "\"label\": []}\n{\"text\": \"w3\", \"label\": [\"a\"]}\n")}) {
    const auto texts = read(name, text, TextProblem::multi_label);
    const auto labels = training::labels_of(texts, TextProblem::multi_label);
    EXPECT_EQ(labels, (std::vector<std::string>{"a", "b"}));
    const training::TextExamples examples(texts, labels, tokenizer, 18, name, TextProblem::multi_label);
    EXPECT_EQ(examples.collect(std::vector<std::uint32_t>{2, 0, 1}).values, (std::vector<float>{1, 0, 1, 1, 0, 0}));
  }
  const auto numbers = read("y.jsonl", "{\"text\": \"w1\", \"label\": -0.25}\n", TextProblem::regression);
  const training::TextExamples examples(numbers, {"LABEL_0"}, tokenizer, 18, "y", TextProblem::regression);
  EXPECT_EQ(examples.values(), (std::vector<float>{-0.25}));
  EXPECT_EQ(refused("a.tsv", "w1\t1.5\nw2\tmany\n", TextProblem::regression),
            "a.tsv: line 2 has the label \"many\", which must be a number");
  EXPECT_EQ(refused("a.tsv", "w1\ta,,b\n", TextProblem::multi_label), "a.tsv: line 1 has an empty label");
  EXPECT_EQ(refused("a.jsonl", "{\"text\": \"w1\", \"label\": [\"a,b\"]}\n", TextProblem::multi_label),
            "a.jsonl: line 1: label[0] must be a label without a comma");
  const std::string config =
      test::edited(test::kTinyTexts, "\"classes\"", "\"tokens\", \"problem_type\": \"regression\"");
  files_.config = folder_.put("wrong.json", config);
  test::expect_refusal<FormatError>([&] { train_files(files_); },
                                    "problem_type applies only to the kinds \"classes\" and \"pairs\"");
}

TEST_F(TextFiles, PairsLearn) {
  std::string text;
  for (int i = 0; i < 49; ++i) {
    const int a = i % 7, b = i / 7;
    text += "w" + std::to_string(a) + "\tw" + std::to_string(b) + "\t" + (a < 4 && b < 4 ? "both" : "other") + "\n";
  }
  files_.config = folder_.put("pairs.json", test::edited(test::kTinyTexts, "classes", "pairs"));
  files_.train = files_.valid = folder_.put("pairs.tsv", text);
  test::Watcher watcher;
  train_files(files_, {.observer = &watcher});
  EXPECT_LT(watcher.validations.back().loss, 0.3);  // of 16 of 49: 0.63
  EXPECT_EQ(TextModel::check(files_.out, TextTask::sequence_class).labels, (std::vector<std::string>{"both", "other"}));
}

TEST_F(TextFiles, LongTextsLoseTheirEnds) {
  files_.config =
      folder_.put("short.json", test::edited(test::kTinyTexts, "\"batch\": 8", "\"batch\": 8, \"max_length\": 4"));
  test::Watcher watcher;
  train_files(files_, {.observer = &watcher});
  test::expect_contains(watcher.notices.front(), " texts have more than 4 tokens and are truncated");
}

// By hand: [CLS] w1 w9 w2 [SEP], where w9 is two pieces.
TEST_F(TextFiles, TheFirstTokenOfAWordHasItsLabel) {
  std::string json = read_file(files_.from + "/tokenizer.json");
  json = test::edited(json, "\"w6\":10", "\"w6\":10,\"w\":11,\"##9\":12");
  const Tokenizer tokenizer = Tokenizer::parse(json, "");
  const std::string lines = folder_.put("x.txt", "w1\tA\nw9\tB\n\nw2\tA\n"),
                    objects = folder_.put("x.jsonl",
                                          "{\"words\": [\"w1\", \"w9\"], \"labels\": [\"A\", \"B\"]}\n"
                                          "{\"labels\": [\"A\"], \"words\": [\"w2\"]}\n");
  for (const std::string& path : {lines, objects}) {
    const auto texts = training::read_labelled_words(path, {}, {});
    ASSERT_EQ(texts.size(), 2u);
    const training::WordExamples examples(texts, training::labels_of(texts), tokenizer, 18, path);
    const LabelledTokens batch = examples.collect(std::vector<std::uint32_t>{0, 1});
    EXPECT_EQ(batch.tokens.ids, (std::vector<std::int32_t>{2, 5, 11, 12, 3, 2, 6, 3}));
    EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{-1, 0, 1, -1, -1, -1, 0, -1}));
  }
}

TEST_F(TextFiles, WordsThatBreakARuleAreRefused) {
  for (const auto& [name, text, message] : std::vector<std::array<std::string, 3>>{
           {"a.txt", "w1\n", "a.txt: line 1 must be a word, a tab and its label, or blank between texts"},
           {"a.txt", "w1\tA\nw 2\tA\n", "a.txt: line 1 begins a text with the word \"w 2\"; a word has no spaces"},
           {"a.txt", "[SEP]\tA\n", "a.txt: line 1 begins a text that holds the special token [SEP]"},
           {"a.jsonl", "{\"words\": [\"w1\"], \"labels\": []}\n", "a.jsonl: line 1 has 1 word and 0 labels"},
           {"a.jsonl", "{\"words\": [], \"labels\": []}\n", "a.jsonl: line 1 has no words"}}) {
    const std::string path = folder_.put(name, text);
    const std::string found = test::message_of<FormatError>(
        [&] { training::read_labelled_words(path, std::vector<std::string>{"[SEP]"}, {}); });
    EXPECT_EQ(found.substr(found.rfind('/') + 1), message);
  }
}

TEST_F(TextFiles, WordsLearn) {
  std::string text;
  for (int i = 0; i < 120; ++i) {
    text += "w" + std::to_string(i % 7) + (i % 7 < 3 ? "\tlow\n" : "\thigh\n");
    if (i % 5 == 4) text += "\n";
  }
  files_.config = folder_.put("tokens.json", test::edited(test::kTinyTexts, "classes", "tokens"));
  files_.train = files_.valid = folder_.put("words.txt", text);
  EXPECT_EQ(train_files(files_).best_metric->value, 1.0);
  EXPECT_EQ(TextModel::check(files_.out, TextTask::token_class).labels, (std::vector<std::string>{"high", "low"}));
  test::expect_contains(test::slurp(files_.out + "/config.json"), "\"BertForTokenClassification\"");
  files_.out = folder_ / "other";
  files_.valid = folder_.put("other.txt", "w1\tmiddle\n");
  test::expect_refusal<FormatError>([&] { train_files(files_); }, "other.txt: line 1 has the label \"middle\", which");
}

// 200 tokens between special ones: 30 are to be found, no special one among them, others stay as they are.
TEST(MaskTokens, FifteenInAHundredAreToBeFound) {
  const training::MaskedWords words{.mask = 4, .vocab = 40, .is_special = [] {
                                      std::vector<std::uint8_t> special(40);
                                      for (const std::size_t id : {0, 1, 2, 3, 4}) special[id] = 1;
                                      return special;
                                    }()};
  TokenBatch tokens{{2}, {}, {}};
  for (int i = 0; i < 200; ++i) tokens.ids.push_back(5 + i % 35);
  tokens.ids.push_back(3);
  tokens.types.resize(tokens.ids.size());
  tokens.offsets = offsets_of(std::vector<std::int64_t>{202});
  const LabelledTokens batch = training::mask_tokens(tokens, words, 7);
  int found = 0, hidden = 0;
  for (std::size_t i = 0; i < 202; ++i) {
    if (batch.labels[i] < 0) {
      EXPECT_EQ(batch.tokens.ids[i], tokens.ids[i]);
      continue;
    }
    EXPECT_EQ(batch.labels[i], tokens.ids[i]);
    EXPECT_GE(batch.labels[i], 5);
    ++found;
    if (batch.tokens.ids[i] == 4) ++hidden;
  }
  EXPECT_EQ(found, 30);
  EXPECT_GT(hidden, 15);
  EXPECT_LT(hidden, 30);
  EXPECT_EQ(training::mask_tokens(tokens, words, 7).tokens.ids, batch.tokens.ids);
  EXPECT_NE(training::mask_tokens(tokens, words, 8).tokens.ids, batch.tokens.ids);
}

TEST_F(TextFiles, MaskedWordsLearn) {
  std::string json = test::edited(read_file(files_.from + "/tokenizer.json"), "\"w6\":10", "\"w6\":10,\"[MASK]\":11"),
              text;
  json = test::edited(json, "\"added_tokens\":[",
                      "\"added_tokens\":[{\"id\":11,\"content\":\"[MASK]\",\"single_word\":false,\"lstrip\":false,"
                      "\"rstrip\":false,\"normalized\":false,\"special\":true},");
  for (int i = 0; i < 40; ++i) text += "w1 w2 w3 w1 w2 w3\n";
  files_.config = folder_.put("masked.json", test::edited(test::kTinyTexts, "classes", "masked"));
  files_.train = files_.valid = folder_.put("plain.txt", text);
  test::expect_refusal<std::invalid_argument>([&] { train_files(files_); }, "has neither the token [MASK] nor <mask>");
  folder_.put("encoder/tokenizer.json", json);
  test::Watcher watcher;
  const std::string whole = weights_in("whole");
  files_.out = folder_ / "cut";
  EXPECT_THROW(train_files(files_, test::Stopper(25).options()), Stopped);
  train_files(files_, {.observer = &watcher});
  EXPECT_EQ(test::slurp(files_.out + "/model.safetensors"), whole);
  EXPECT_LT(watcher.validations.back().loss, 1);  // of 30 words: 3.4
  EXPECT_EQ(TextModel::load(files_.out, TextTask::masked_word).config().outputs, 30);
}

}  // namespace
}  // namespace qkv
