// A translation and its heads as one JSON object for machines.
#include "explain/heads_json.h"
#include "qkv/explain/explain_translation.h"

namespace qkv {

std::string to_json(const TranslationSurvey& survey) {
  OrderedJson object = {{"source_text", survey.source_text},
                        {"target_text", survey.target_text},
                        {"source", survey.source},
                        {"target", survey.target},
                        {"read", survey.read},
                        {"source_words", survey.source_words},
                        {"target_words", survey.target_words},
                        {"cut", survey.cut},
                        {"word_weights", json_numbers(survey.word_weights)}};
  for (const auto& [name, heads] : {std::pair("encoder", &survey.encoder), std::pair("decoder", &survey.decoder),
                                    std::pair("encoder_decoder", &survey.encoder_decoder)}) {
    object[name] = OrderedJson::array();
    for (const HeadSurvey::Entry& entry : *heads) object[name].push_back(to_object(entry));
  }
  return json_text(object);
}

}  // namespace qkv
