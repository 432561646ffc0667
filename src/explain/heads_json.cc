// A survey of heads, or one head in full, as one JSON object for machines.
#include <cmath>

#include "explain/json_numbers.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

OrderedJson to_object(const HeadSummary& summary) {
  OrderedJson object;
  for (const auto& [name, value] :
       {std::pair("entropy", summary.entropy), std::pair("distance", summary.distance),
        std::pair("first", summary.first), std::pair("previous", summary.previous), std::pair("next", summary.next),
        std::pair("itself", summary.itself), std::pair("separators", summary.separators)}) {
    object[name] = io::json_number(value);
  }
  return object;
}

OrderedJson to_object(const HeadSurvey::Entry& entry) {
  OrderedJson head = {{"layer", entry.index.layer}, {"head", entry.index.head}};
  head.update(to_object(entry.summary));
  if (entry.weights.element_count() > 0) head["weights"] = json_numbers(entry.weights);
  return head;
}

}  // namespace

std::string to_json(const HeadSurvey& survey) {
  const auto& [sequences, sites, input, alignment] = survey.attentions;
  OrderedJson object;
  if (alignment) {
    object["source_text"] = alignment->source_text;
    object["target_text"] = alignment->target_text;
  }
  for (const AttentionSequence& sequence : sequences) object[sequence.name] = sequence.tokens;
  if (alignment) {
    object["source_words"] = alignment->source.words;
    object["target_words"] = alignment->target.words;
    object["cut"] = alignment->cut;
    object["word_weights"] = json_numbers(survey.word_weights);
  }
  if (sequences.size() == 1) {
    object["largest_entropy"] = std::log(static_cast<double>(sequences.front().tokens.size()));
  }
  for (const AttentionSite& site : sites) object[site.name] = OrderedJson::array();
  for (const HeadSurvey::Entry& entry : survey.heads) object[sites[entry.index.site].name].push_back(to_object(entry));
  return json_text(object);
}

std::string to_json(const HeadTrace& trace, std::optional<std::int64_t> token) {
  OrderedJson object = {{"layer", trace.index.layer}, {"head", trace.index.head}, {"tokens", trace.tokens}};
  if (trace.keys != trace.tokens) object["keys"] = trace.keys;
  if (token) object["token"] = *token;
  object["heads"] = trace.heads;
  object["model_dim"] = trace.model_dim;
  object["summary"] = to_object(trace.summary);
  object["dtype"] = "f32";
  object["target"] = trace.target;
  object["score"] = trace.score == Score::Kind::additive ? "v . tanh(query + key)" : "query . key";
  object["scale"] = trace.scale;
  for (const auto& [name, tensor] :
       {std::pair("query", &trace.query), std::pair("key", &trace.key), std::pair("value", &trace.value),
        std::pair("scores", &trace.scores), std::pair("logits", &trace.logits), std::pair("weights", &trace.weights),
        std::pair("output", &trace.output)}) {
    object[name] = json_numbers(*tensor);
  }
  object["keys_by_weight"] = OrderedJson::array();
  for (std::int64_t i = 0; i < trace.weights.size(0); ++i) {
    object["keys_by_weight"].push_back(keys_by_weight(trace.weights, i));
  }
  object["largest_difference_of_logits"] = io::json_number(trace.logits_difference);
  object["largest_difference_of_output"] = io::json_number(trace.output_difference);
  return json_text(object);
}

}  // namespace qkv
