// A survey of heads, or one head in full, as one JSON object for machines.
#include <cmath>

#include "explain/heads_json.h"
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

}  // namespace

OrderedJson to_object(const HeadSurvey::Entry& entry) {
  OrderedJson head = {{"layer", entry.place.layer}, {"head", entry.place.head}};
  head.update(to_object(entry.summary));
  if (entry.weights.element_count() > 0) head["weights"] = json_numbers(entry.weights);
  return head;
}

std::string to_json(const HeadSurvey& survey) {
  OrderedJson object = {{"tokens", survey.tokens},
                        {"largest_entropy", std::log(static_cast<double>(survey.tokens.size()))},
                        {"heads", OrderedJson::array()}};
  for (const HeadSurvey::Entry& entry : survey.heads) object["heads"].push_back(to_object(entry));
  return json_text(object);
}

std::string to_json(const HeadLook& look, std::optional<std::int64_t> token) {
  OrderedJson object = {{"layer", look.place.layer}, {"head", look.place.head}, {"tokens", look.tokens}};
  if (look.keys != look.tokens) object["keys"] = look.keys;
  if (token) object["token"] = *token;
  object["heads"] = look.heads;
  object["model_dim"] = look.model_dim;
  object["summary"] = to_object(look.summary);
  object["dtype"] = "f32";
  object["target"] = look.target;
  object["scale"] = look.scale;
  for (const auto& [name, tensor] :
       {std::pair("query", &look.query), std::pair("key", &look.key), std::pair("value", &look.value),
        std::pair("scores", &look.scores), std::pair("logits", &look.logits), std::pair("weights", &look.weights),
        std::pair("output", &look.output)}) {
    object[name] = json_numbers(*tensor);
  }
  object["keys_by_weight"] = OrderedJson::array();
  for (std::int64_t i = 0; i < look.weights.size(0); ++i) {
    object["keys_by_weight"].push_back(keys_by_weight(look.weights, i));
  }
  object["largest_difference_of_logits"] = io::json_number(look.logits_difference);
  object["largest_difference_of_output"] = io::json_number(look.output_difference);
  return json_text(object);
}

}  // namespace qkv
