// The measures of one token as one JSON object.
#include <fmt/format.h>

#include "explain/json_object.h"
#include "explain/left_out_masks.h"
#include "qkv/explain/token_measures.h"
#include "qkv/target.h"

namespace qkv {
namespace {

OrderedJson measured(const std::vector<MeasuredBy>& by) {
  OrderedJson list = OrderedJson::array();
  for (const MeasuredBy& one : by) {
    OrderedJson values = OrderedJson::array();
    for (const double value : one.values) values.push_back(io::json_number(value));
    list.push_back({{"measure", name_of(one.measure)},
                    {"values", std::move(values)},
                    {"rank_correlation", one.correlation ? OrderedJson(*one.correlation) : OrderedJson(nullptr)}});
  }
  return list;
}

}  // namespace

std::string to_json(const TokenMeasures& measures) {
  const auto& [sequences, sites, input, alignment, left_out] = measures.attentions;
  const AttentionSequence& sequence = sequences[measures.sequence];
  const std::string& name = sequence.tokens[static_cast<std::size_t>(measures.token)];
  OrderedJson object =
      json_object("token", selected_target(), Dtype::f32,
                  fmt::format("Measures of token {}, \"{}\"", measures.token, name) + without(measures.attentions));
  object["input"] = input;
  object["sequence"] = sequence.name;
  object["cut"] = cut_of(measures.attentions);
  object["tokens"] = sequence.tokens;
  object["token"] = measures.token;
  object["log_probability"] =
      measures.log_probability ? io::json_number(*measures.log_probability) : OrderedJson(nullptr);
  object["keys"] = OrderedJson::array();
  for (const TokenMeasures::Keys& keys : measures.keys) {
    std::vector<std::string> tokens = sequences[sites[keys.site].keys].tokens;
    if (!keys.by.empty()) tokens.resize(keys.by.front().values.size());
    object["keys"].push_back(
        {{"attention", sites[keys.site].name}, {"tokens", tokens}, {"measures", measured(keys.by)}});
  }
  OrderedJson places = OrderedJson::array();
  for (const HeadIndex& head : measures.heads) {
    places.push_back({{"attention", sites[head.site].name}, {"layer", head.layer}, {"head", head.head}});
  }
  object["heads"] = {{"all", std::move(places)}, {"measures", measured(measures.by_heads)}};
  return json_text(object);
}

}  // namespace qkv
