// qkv classify: the classes of texts or pictures; and of labelled pictures, how many are found.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "core/share.h"
#include "explained_head.h"
#include "figures.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "notes.h"
#include "qkv/error.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/picture_classifier.h"
#include "qkv/pipelines/text_classifier.h"
#include "signals.h"
#include "train/data/labelled_pictures.h"

namespace qkv::app {
namespace {

constexpr std::int64_t kBatch = 64;

struct ClassifyRequest {
  std::string model{};
  std::vector<std::string> texts{};
  std::vector<std::string> images{};
  std::string data{};
  std::int64_t largest = 255;
  std::int64_t top = 3;
  ModelStorage storage{};  // without other weights
  bool json = false;
  std::optional<std::string> second{};  // of a pair
  std::string label{};                  // that is explained; empty: the most probable one
  ExplainedHead explained{};
};

// `kind`: of `what`, in JSON.
void print_classes(const char* kind, const std::string& what, const std::vector<ClassProbability>& classes, bool json) {
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [label, probability] : classes) {
      list.push_back({{"label", label}, {"probability", probability}});
    }
    fmt::print("{}\n", nlohmann::ordered_json{{kind, what}, {"classes", list}}.dump());
    return;
  }
  std::string line;
  for (const auto& [label, probability] : classes) {
    line += fmt::format("{}{} ({})", line.empty() ? "" : ", ", label, percent_text(probability));
  }
  fmt::print("{}: {}\n", on_one_line(what), line);
}

// How many of each class are found, and what the others are taken for.
void measure(const ClassifyRequest& request, const PictureClassifier& classifier) {
  auto line = std::make_unique<WorkingLine>("reading");
  const Vit& model = classifier.model();
  const std::vector<std::string>& labels = model.config().labels;
  const training::PictureFiles files = training::with_labels(
      training::read_labelled_pictures(request.data, request.largest, classifier.processor()), labels, request.data);
  for (const Tensor& picture : files.pictures) {
    if (picture.shape() == files.pictures.front().shape()) continue;
    throw FormatError(fmt::format("{}: pictures have different sizes after preprocessor_config.json", request.data));
  }
  const training::PictureExamples examples(files, 0, {});
  line.reset();
  line = std::make_unique<WorkingLine>("classifying");
  ShareTurns turns((examples.count() + kBatch - 1) / kBatch);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> confused;
  std::int64_t right = 0;
  for (std::int64_t begin = 0; begin < examples.count(); begin += kBatch, turns.next()) {
    check_interruption();
    std::vector<std::uint32_t> chosen;
    for (std::int64_t i = begin; i < std::min(begin + kBatch, examples.count()); ++i) {
      chosen.push_back(static_cast<std::uint32_t>(i));
    }
    const LabelledPictures batch = examples.collect(chosen);
    const Tensor logits = model.logits(batch.pictures, {.stop = interruption()});
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const float* row = logits.data<float>() + static_cast<std::int64_t>(i) * logits.size(1);
      const auto found = static_cast<std::int32_t>(std::max_element(row, row + logits.size(1)) - row);
      found == batch.labels[i] ? ++right : ++confused[{batch.labels[i], found}];
    }
  }
  line.reset();
  const double share = static_cast<double>(right) / static_cast<double>(examples.count());
  if (request.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [pair, count] : confused) {
      list.push_back({{"label", labels[static_cast<std::size_t>(pair.first)]},
                      {"found", labels[static_cast<std::size_t>(pair.second)]},
                      {"pictures", count}});
    }
    const nlohmann::ordered_json result{
        {"pictures", examples.count()}, {"right", right}, {"accuracy", share}, {"wrong", list}};
    fmt::print("{}\n", result.dump());
    return;
  }
  fmt::print("{} of {} right ({:.2f} %)\n", right, examples.count(), 100 * share);
  for (const auto& [pair, count] : confused) {
    fmt::print("{} of class {} classified as {}\n", count, labels[static_cast<std::size_t>(pair.first)],
               labels[static_cast<std::size_t>(pair.second)]);
  }
}

void classify_texts(const Command& command, ClassifyRequest request) {
  std::vector<TextOrPair> texts;
  std::optional<std::string> second;
  if (request.second) second = text_of_option("--second", *request.second);
  for (const std::string& each : request.texts) texts.push_back({text_of_option("text", each), second});
  const std::string folder = find_model(request.model);
  request.explained.check(folder);
  const TextClassifier classifier = TextClassifier::load(folder, request.storage.of_model());
  CutTexts all_cut;
  for (const TextOrPair& each : texts) {
    check_interruption();
    std::int64_t cut = 0;
    classifier.encode(each, &cut);
    all_cut.add(cut);
    if (request.explained.wanted) {
      const JudgedText text =
          of_option("--label", [&] { return JudgedText(classifier, each, request.label, interruption()); });
      request.explained.print(classifier, text, request.json);
      continue;
    }
    const auto classes = classifier.classify(std::span(&each, 1), request.top, {.stop = interruption()});
    print_classes("text", each.text, classes.front(), request.json);
  }
  all_cut.warn("qkv classify", classifier.max_length());
  request.explained.report.write("Classified: " + texts.front().text, command.line());
}

void classify(const Command& command, const ClassifyRequest& request) {
  const bool pictures = !request.images.empty() || !request.data.empty();
  if (pictures != request.texts.empty()) throw UsageError("give texts, --image or --data");
  if (!pictures) return classify_texts(command, request);
  const PictureClassifier classifier = PictureClassifier::load(find_model(request.model), request.storage.of_model());
  for (const std::string& image : request.images) {
    check_interruption();
    print_classes("image", image, classifier.classify(read_picture(image), request.top, {.stop = interruption()}),
                  request.json);
  }
  if (!request.data.empty()) measure(request, classifier);
}

}  // namespace

void add_classify(Command& program) {
  Command& command =
      program.add_command("classify", "Classify texts with an encoder, or pictures with a Vision Transformer");
  command.add_examples(
      {{"The classes of a text", "qkv classify --model cardiffnlp/twitter-roberta-base-sentiment 'I like it.'"},
       {"The digit in a picture", "qkv classify --model models/digits --image seven.png"}});
  const auto request = std::make_shared<ClassifyRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Folder of the model: config.json, model.safetensors, and tokenizer.json or preprocessor_config.json",
        required()},
       {"text", text(request->texts, "TEXT"), "Texts to classify", repeated()},
       {"--image", text(request->images, "FILE"), "PNG or JPEG files", repeated()},
       {"--data", file(request->data),
        "Labelled pictures; prints the accuracy: a folder with one folder of pictures per class, or CSV (class, then "
        "the gray pixels of a square picture)"},
       {"--largest", whole(request->largest, 1, 65535), "Pixel value of white in the CSV of --data (default: 255)",
        needs("--data")},
       {"--top", size(request->top), "Number of classes to print for each, most probable first (default: 3)"},
       {"--json", flag(request->json), "Write one JSON object per line"},
       {"--second", text(request->second, "TEXT"), "Classify pairs: each text with this second one", needs("text")}});
  command.add(explain_options(request->explained, "Show instead which words the most probable class came from",
                              needs("text") & excludes("--top")));
  command.add({{"--label", text(request->label, "LABEL"), "Explain this class instead of the most probable one",
                needs("--explain")}});
  command.add({model_precision_option(request->storage.precision), threads_option()});
  command.on_run([&command, request] { classify(command, *request); });
}

}  // namespace qkv::app
