// The models of qkv.h: each task is a pipeline.
#include <iterator>
#include <memory>
#include <variant>

#include "c/call.h"
#include "qkv/error.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/fingerprint.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/question_answerer.h"
#include "qkv/pipelines/reranker.h"
#include "qkv/pipelines/tagger.h"
#include "qkv/pipelines/text_classifier.h"
#include "qkv/pipelines/translator.h"

// In the order of qkv_task.
struct qkv_model {
  std::variant<qkv::Embedder, qkv::Reranker, qkv::TextClassifier, qkv::FillMask, qkv::Translator, qkv::Generator,
               qkv::Tagger, qkv::QuestionAnswerer>
      is;
};

namespace qkv::inline for_c {
namespace {

constexpr const char* kTasks[] = {"QKV_EMBED",     "QKV_RANK",     "QKV_CLASSIFY", "QKV_FILL",
                                  "QKV_TRANSLATE", "QKV_GENERATE", "QKV_TAG",      "QKV_ANSWER"};
static_assert(std::size(kTasks) == std::variant_size_v<decltype(qkv_model::is)>);

constexpr WeightStorage kStorages[] = {WeightStorage::full,        WeightStorage::bf16,    WeightStorage::int8,
                                       WeightStorage::int8_groups, WeightStorage::reduced, WeightStorage::reduced_pairs,
                                       WeightStorage::q8,          WeightStorage::q4};

template <int task>
const auto& opened_for(const qkv_model* model, const char* subject) {
  const auto* pipeline = std::get_if<task>(&given(model, subject, "model").is);
  refuse_unless(pipeline != nullptr, subject, "the model was opened for {}; it must be {}", kTasks[model->is.index()],
                kTasks[task]);
  return *pipeline;
}

template <std::size_t kTask = 0>
std::unique_ptr<qkv_model> load(const std::string& folder, std::size_t task, WeightStorage storage) {
  if constexpr (kTask + 1 < std::size(kTasks)) {
    if (task != kTask) return load<kTask + 1>(folder, task, storage);
  }
  using Pipeline = std::variant_alternative_t<kTask, decltype(qkv_model::is)>;
  return std::make_unique<qkv_model>(qkv_model{Pipeline::load(folder, storage)});
}

qkv_label* block_of(const std::vector<ClassProbability>& labels) {
  return block_of<qkv_label>(
      labels, [](const ClassProbability& each) -> const std::string& { return each.label; },
      [](const ClassProbability& each, const char* text) { return qkv_label{text, each.probability}; });
}

// A block of parts of a text, which have a score and a span.
template <class Part, class Found>
Part* block_of_parts(const std::vector<Found>& found, std::string Found::* text) {
  return block_of<Part>(
      found, [&](const Found& each) -> const std::string& { return each.*text; },
      [](const Found& each, const char* own) {
        return Part{own, each.score, static_cast<std::int64_t>(each.span.begin),
                    static_cast<std::int64_t>(each.span.end)};
      });
}

// `read` checks the text or the pair.
template <class Read>
int classify(const char* subject, const qkv_model* model, const Read& read, std::int64_t top, qkv_label** labels,
             std::int64_t* count) {
  return answer([&] {
    qkv_label*& result = cleared(labels, subject, "labels");
    std::int64_t& classes = given(count, subject, "count");
    const TextClassifier& classifier = opened_for<QKV_CLASSIFY>(model, subject);
    const TextOrPair own = read();
    const auto found = classifier.classify(std::span(&own, 1), top).front();
    result = block_of(found);
    classes = std::ssize(found);
  });
}

GeneratorOptions options_of(const qkv_generate_options& given_options) {
  constexpr const char* kSubject = "qkv_generate";
  refuse_unless(given_options.max_new_tokens >= 0, kSubject, "max_new_tokens is {}", given_options.max_new_tokens);
  const auto unless_0 = [](auto value) { return value == 0 ? std::nullopt : std::optional(value); };
  GeneratorOptions options{
      .form = static_cast<PromptForm>(one_of(given_options.form, QKV_CHAT + 1, kSubject, "form")),
      .max_new_tokens = unless_0(given_options.max_new_tokens),
      .beams = unless_0(given_options.beams),
      .repetition_penalty = unless_0(given_options.repetition_penalty),
  };
  const int choice = one_of(given_options.choice, QKV_SAMPLE + 1, kSubject, "choice");
  options.greedy = choice == QKV_GREEDY;
  if (choice == QKV_SAMPLE) {
    options.sampling = Sampling{.temperature = given_options.temperature,
                                .top_k = given_options.top_k,
                                .top_p = given_options.top_p,
                                .min_p = given_options.min_p,
                                .seed = given_options.seed};
  }
  return options;
}

// on_text gets what is written until it says that it is enough; then that is the text.
std::string generate(const Generator& generator, const std::string& prompt, const qkv_generate_options& given_options) {
  GeneratorOptions options = options_of(given_options);
  if (given_options.on_text == nullptr) return generator.generate(prompt, options).text;
  std::stop_source enough;
  std::string so_far;
  options.stop = enough.get_token();
  options.on_text = [&](std::size_t, std::string_view piece) {
    if (enough.stop_requested()) return;
    so_far += piece;
    if (given_options.on_text(given_options.context, std::string(piece).c_str()) != 0) enough.request_stop();
  };
  try {
    generator.generate(prompt, options);
  } catch (const Stopped&) {
    if (!enough.stop_requested()) throw;
  }
  return so_far;
}

}  // namespace
}  // namespace qkv::inline for_c

using namespace qkv;

int qkv_open(const char* folder, int task, int storage, qkv_model** model) {
  constexpr const char* kSubject = "qkv_open";
  return answer([&] {
    qkv_model*& opened = cleared(model, kSubject, "model");
    const std::string name = &given(folder, kSubject, "folder");
    one_of(task, std::size(kTasks), kSubject, "task");
    one_of(storage, std::size(kStorages), kSubject, "storage");
    const std::string path = task == QKV_GENERATE ? find_language_model(name) : find_model(name);
    opened = load(path, static_cast<std::size_t>(task), kStorages[storage]).release();
  });
}

void qkv_close(qkv_model* model) { delete model; }

int qkv_fingerprint(const qkv_model* model, char** text) {
  constexpr const char* kSubject = "qkv_fingerprint";
  return answer([&] {
    char*& result = cleared(text, kSubject, "fingerprint");
    const auto of = [](const auto& pipeline) { return fingerprint(pipeline); };
    result = block_of(std::visit(of, given(model, kSubject, "model").is));
  });
}

int qkv_dim(const qkv_model* model, int64_t* dim) {
  constexpr const char* kSubject = "qkv_dim";
  return answer([&] { given(dim, kSubject, "dim") = opened_for<QKV_EMBED>(model, kSubject).dim(); });
}

int qkv_embed(const qkv_model* model, const char* const* texts, int64_t count, const char* prompt, float* rows,
              int64_t capacity) {
  constexpr const char* kSubject = "qkv_embed";
  return answer([&] {
    const Embedder& embedder = opened_for<QKV_EMBED>(model, kSubject);
    const std::vector<std::string> own = texts_of(texts, count, kSubject);
    EmbedOptions options;
    if (prompt != nullptr) options.prompt = text_of(prompt, kSubject, "prompt");
    if (count == 0) return;
    given(rows, kSubject, "rows");
    refuse_unless(capacity / embedder.dim() >= count, kSubject, "capacity is {}; {} texts need {} floats each",
                  capacity, count, embedder.dim());
    const Tensor found = embedder.embed(own, options);
    std::copy_n(found.data<float>(), found.element_count(), rows);
  });
}

int qkv_rank(const qkv_model* model, const char* query, const char* const* texts, int64_t count, float* scores,
             int64_t* order) {
  constexpr const char* kSubject = "qkv_rank";
  return answer([&] {
    const Reranker& reranker = opened_for<QKV_RANK>(model, kSubject);
    const std::string own_query = text_of(query, kSubject, "query");
    const std::vector<std::string> own = texts_of(texts, count, kSubject);
    for (const Ranked& each : reranker.rank(own_query, own)) {
      if (scores != nullptr) scores[each.index] = each.score;
      if (order != nullptr) *order++ = static_cast<std::int64_t>(each.index);
    }
  });
}

int qkv_classify(const qkv_model* model, const char* text, int64_t top, qkv_label** labels, int64_t* count) {
  constexpr const char* kSubject = "qkv_classify";
  return classify(kSubject, model, [&] { return TextOrPair{text_of(text, kSubject, "text")}; }, top, labels, count);
}

int qkv_classify_pair(const qkv_model* model, const char* text, const char* second, int64_t top, qkv_label** labels,
                      int64_t* count) {
  constexpr const char* kSubject = "qkv_classify_pair";
  const auto pair = [&] { return TextOrPair{text_of(text, kSubject, "text"), text_of(second, kSubject, "second")}; };
  return classify(kSubject, model, pair, top, labels, count);
}

int qkv_tag(const qkv_model* model, const char* text, int aggregation, qkv_tagged** found, int64_t* count) {
  constexpr const char* kSubject = "qkv_tag";
  return answer([&] {
    qkv_tagged*& result = cleared(found, kSubject, "found");
    std::int64_t& spans = given(count, kSubject, "count");
    const Tagger& tagger = opened_for<QKV_TAG>(model, kSubject);
    const std::vector<std::string> own{text_of(text, kSubject, "text")};
    const int chosen = one_of(aggregation, QKV_MAX + 1, kSubject, "aggregation");
    const auto tagged = tagger.tag(own, {.aggregation = static_cast<Aggregation>(chosen)});
    result = block_of_parts<qkv_tagged>(tagged.front(), &TaggedSpan::label);
    spans = std::ssize(tagged.front());
  });
}

int qkv_answer(const qkv_model* model, const char* question, const char* context, int64_t top, qkv_answered** answers,
               int64_t* count) {
  constexpr const char* kSubject = "qkv_answer";
  return answer([&] {
    qkv_answered*& result = cleared(answers, kSubject, "answers");
    std::int64_t& found_count = given(count, kSubject, "count");
    const QuestionAnswerer& answerer = opened_for<QKV_ANSWER>(model, kSubject);
    const std::string asked = text_of(question, kSubject, "question");
    const auto found = answerer.answer(asked, text_of(context, kSubject, "context"), {.top_k = top});
    result = block_of_parts<qkv_answered>(found, &Answer::text);
    found_count = std::ssize(found);
  });
}

int qkv_fill(const qkv_model* model, const char* text, int64_t top, qkv_label** words, int64_t* masks, int64_t* each) {
  constexpr const char* kSubject = "qkv_fill";
  return answer([&] {
    qkv_label*& result = cleared(words, kSubject, "words");
    std::int64_t &rows = given(masks, kSubject, "masks"), &columns = given(each, kSubject, "each");
    const auto found = opened_for<QKV_FILL>(model, kSubject).fill(text_of(text, kSubject, "text"), top);
    std::vector<ClassProbability> all;
    for (const auto& mask : found) all.insert(all.end(), mask.begin(), mask.end());
    result = block_of(all);
    rows = std::ssize(found);
    columns = std::ssize(found.front());
  });
}

int qkv_translate(const qkv_model* model, const char* const* texts, int64_t count, int64_t beams, int64_t max_length,
                  char*** translations) {
  constexpr const char* kSubject = "qkv_translate";
  return answer([&] {
    char**& result = cleared(translations, kSubject, "translations");
    const Translator& translator = opened_for<QKV_TRANSLATE>(model, kSubject);
    TranslateOptions options;
    if (beams != 0) options.beams = beams;
    if (max_length != 0) options.max_length = max_length;
    const auto found = translator.translate(texts_of(texts, count, kSubject), options);
    result = block_of<char*>(
        found, [](const auto& best) -> const std::string& { return best.front().text; },
        [](const auto&, char* text) { return text; });
  });
}

int qkv_generate(const qkv_model* model, const char* prompt, const qkv_generate_options* options, char** text) {
  constexpr const char* kSubject = "qkv_generate";
  return answer([&] {
    char*& result = cleared(text, kSubject, "text");
    const Generator& generator = opened_for<QKV_GENERATE>(model, kSubject);
    result = block_of(generate(generator, text_of(prompt, kSubject, "prompt"),
                               options == nullptr ? qkv_generate_options{} : *options));
  });
}
