// A survey of heads, one head in full, the measures of one token, or attention over long inputs as one JSON object for
// machines.
#include <fmt/format.h>

#include <algorithm>

#include "explain/observe/left_out_masks.h"
#include "explain/show/json_object.h"
#include "explain/steps/explanation_context.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/token_measures.h"
#include "qkv/target.h"

namespace qkv {
namespace {

constexpr const char* name_of_mask(bool causal) { return causal ? "causal" : "none"; }

OrderedJson to_object(const HeadSummary& summary) {
  OrderedJson object;
  for (const auto& [name, value] : kHeadMeasures) object[name] = io::json_number(summary.*value);
  return object;
}

OrderedJson to_object(const HeadMap& map, const HeadIndex& index, const HeadSurvey& survey) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = survey.attentions;
  MapViews views{.queries = std::ssize(sequences[sites[index.site].queries].tokens),
                 .keys = std::ssize(sequences[sites[index.site].keys].tokens),
                 .blocks = map.blocks,
                 .row_numbers = survey.kept_rows};
  if (map.top_keys.element_count() > 0) {
    views.top_keys = map.top_keys;
    views.top_weights = map.top_weights;
  }
  if (map.rows.element_count() > 0) views.rows = map.rows;
  OrderedJson object = {{"tile", kMapTile}};
  object.update(to_object(views));
  return object;
}

OrderedJson to_object(const HeadSurvey::Entry& entry, const HeadSurvey& survey) {
  OrderedJson head = {{"layer", entry.index.layer}, {"head", entry.index.head}};
  head.update(to_object(entry.summary));
  head["pattern"] = name_of(entry.pattern);
  if (entry.value_lengths.element_count() > 0) {
    head["value_norm"] = io::json_number(entry.value_norm);
    head["value_lengths"] = json_numbers(entry.value_lengths);
  }
  head["weights"] = json_numbers(entry.weights, Dtype::f32);
  if (entry.map) head["map"] = to_object(*entry.map, entry.index, survey);
  return head;
}

OrderedJson to_object(const AttentionSequence& sequence) {
  std::vector<bool> special(sequence.special.begin(), sequence.special.end());
  std::vector<std::int64_t> word_of = sequence.words.word_of;
  word_of.resize(sequence.tokens.size(), -1);
  return {{"name", sequence.name}, {"caption", sequence.caption}, {"tokens", sequence.tokens},    {"ids", sequence.ids},
          {"special", special},    {"word_of", word_of},          {"words", sequence.words.words}};
}

OrderedJson to_object(const Attentions& attentions, std::size_t index, const std::optional<AttentionPlan>& cost) {
  const AttentionSite& site = attentions.sites[index];
  return {{"name", site.name},
          {"title", site.title},
          {"caption", site.caption},
          {"layers", site.layers},
          {"heads", site.heads},
          {"kv_heads", site.kv_heads > 0 ? site.kv_heads : site.heads},
          {"model_dim", site.model_dim},
          {"score", score_name(site.score)},
          {"queries", attentions.sequences[site.queries].name},
          {"keys", attentions.sequences[site.keys].name},
          {"mask", name_of_mask(site.causal)},
          {"largest_entropy", largest_entropy(attentions, index)},
          {"cost", to_object(cost)},
          {"all", OrderedJson::array()}};
}

OrderedJson places_of(const std::vector<HeadIndex>& heads, const std::vector<AttentionSite>& sites) {
  return json_list(heads, [&](const HeadIndex& one) -> OrderedJson {
    return {{"attention", sites[one.site].name}, {"layer", one.layer}, {"head", one.head}};
  });
}

OrderedJson to_object(const LeftOut& left_out, const std::vector<AttentionSite>& sites) {
  const auto key_of = [&](const auto& left) -> OrderedJson {
    const auto& [key, site] = left;
    return {{"attention", sites[site].name}, {"key", key}};
  };
  return {{"heads", places_of(left_out.heads, sites)}, {"keys", json_list(left_out.keys, key_of)}};
}

// The number after "layers.", and of the outputs of an attention which one it is.
OrderedJson place_of(const SublayerVectors& sublayer, const std::vector<AttentionSite>& sites) {
  OrderedJson place = {{"layer", nullptr}, {"attention", nullptr}};
  constexpr std::string_view kLayers = "layers.";
  if (const std::size_t at = sublayer.name.find(kLayers); at != std::string::npos) {
    place["layer"] = std::stoll(sublayer.name.substr(at + kLayers.size()));
    for (const AttentionSite& site : sites) {
      const bool own = sublayer.name.starts_with(site.scope(place["layer"].get<std::int64_t>()));
      if (sublayer.part == "attention" && own) place["attention"] = site.name;
    }
  }
  return place;
}

OrderedJson to_object(const SublayerVectors& sublayer, const Attentions& attentions) {
  OrderedJson object = {{"name", sublayer.name},
                        {"part", sublayer.part},
                        {"sequence", attentions.sequences[sublayer.sequence].name},
                        {"shape", {std::ssize(sublayer.lengths), sublayer.size}},
                        {"lengths", json_list(sublayer.lengths, json_number_f32)}};
  object.update(place_of(sublayer, attentions.sites));
  return object;
}

OrderedJson to_object(const TokenProbability& token) {
  return {{"token", token.token}, {"id", token.id}, {"probability", io::json_number(token.probability)}};
}

OrderedJson to_object(const Alignment& alignment, const HeadSurvey& survey) {
  OrderedJson object = {{"source_text", alignment.source_text},
                        {"target_text", alignment.output_text},
                        {"cut", alignment.cut},
                        {"source_words", alignment.source.words},
                        {"target_words", alignment.output.words},
                        {"word_alignment", json_numbers(survey.word_alignment)},
                        {"word_weights", json_numbers(survey.word_weights)}};
  const auto guessed = [](const LayerGuess& guess) {
    OrderedJson layer = to_object(guess.best);
    layer["written"] = io::json_number(guess.written);
    return layer;
  };
  object["written"] = json_list(alignment.written, [&](const WrittenToken& token) {
    OrderedJson one = to_object(static_cast<const TokenProbability&>(token));
    one["candidates"] = json_list(token.candidates, [](const TokenProbability& each) { return to_object(each); });
    if (alignment.is_continuation) one["layers"] = json_list(token.layers, guessed);
    return one;
  });
  return object;
}

OrderedJson measured(const std::vector<MeasuredBy>& by) {
  return json_list(by, [](const MeasuredBy& one) -> OrderedJson {
    return {{"measure", name_of(one.measure)},
            {"values", json_list(one.values, io::json_number)},
            {"rank_correlation", one.correlation ? OrderedJson(*one.correlation) : OrderedJson(nullptr)}};
  });
}

}  // namespace

std::string to_json(const HeadSurvey& survey) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = survey.attentions;
  OrderedJson object =
      json_object("heads", selected_target(), Dtype::f32,
                  "What the heads attend to" + without(survey.attentions) + (input.empty() ? "" : ": " + input),
                  survey.fingerprint);
  object["input"] = input;
  object["cut"] = cut_of(survey.attentions);
  if (!remarks.empty()) object["remarks"] = remarks;
  object["sequences"] = json_list(sequences, [](const AttentionSequence& sequence) { return to_object(sequence); });
  object["left_out"] = to_object(left_out, sites);
  object["attentions"] = OrderedJson::array();
  for (std::size_t s = 0; s < sites.size(); ++s) {
    object["attentions"].push_back(
        to_object(survey.attentions, s, s < survey.costs.size() ? survey.costs[s] : std::nullopt));
  }
  for (const HeadSurvey::Entry& entry : survey.heads) {
    object["attentions"][entry.index.site]["all"].push_back(to_object(entry, survey));
  }
  object["sublayers"] = json_list(
      survey.sublayers, [&](const SublayerVectors& sublayer) { return to_object(sublayer, survey.attentions); });
  const bool continues = alignment && alignment->is_continuation;
  object["translation"] = alignment && !continues ? to_object(*alignment, survey) : OrderedJson(nullptr);
  if (continues) object["continuation"] = to_object(*alignment, survey);
  return json_text(object);
}

std::string to_json(const HeadTrace& trace, std::optional<std::int64_t> token) {
  OrderedJson object = json_object("head", trace.target, Dtype::f32, trace.title, trace.fingerprint);
  object.update({{"attention", trace.attention}, {"layer", trace.index.layer}, {"head", trace.index.head}});
  object["heads"] = trace.heads;
  object["model_dim"] = trace.model_dim;
  object["score"] = score_name(trace.score);
  object["scale"] = trace.scale;
  if (trace.soft_cap > 0) object["soft_cap"] = trace.soft_cap;
  object["mask"] = name_of_mask(trace.causal);
  object["cut"] = trace.cut;
  object["tokens"] = trace.tokens;
  object["keys"] = trace.keys;
  object["token"] = token ? OrderedJson(*token) : OrderedJson(nullptr);
  object["summary"] = to_object(trace.summary);
  object["cost"] = to_object(trace.cost);
  for (const auto& [name, tensor] : {std::pair("query", &trace.query), std::pair("key", &trace.key),
                                     std::pair("value", &trace.value), std::pair("v", &trace.v)}) {
    object[name] = json_numbers(*tensor, Dtype::f32);
  }
  object["scores"] = json_numbers(trace.scores);
  if (trace.bias.element_count() > 0) object["bias"] = json_numbers(trace.bias, Dtype::f32);
  object["logits"] = json_numbers(trace.logits, Dtype::f32);
  object["log_sum_exp"] = json_numbers(trace.log_sum_exp);
  object["weights"] = json_numbers(trace.weights, Dtype::f32);
  object["output"] = json_numbers(trace.output, Dtype::f32);
  object["value_lengths"] = json_numbers(trace.value_lengths);
  object["value_norms"] = json_numbers(trace.value_norms);
  object["keys_by_weight"] = OrderedJson::array();
  for (std::int64_t i = 0; i < trace.weights.size(0); ++i) {
    object["keys_by_weight"].push_back(keys_by_weight(trace.weights, i));
  }
  object["largest_difference_of_logits"] = io::json_number(trace.logits_difference);
  object["largest_difference_of_output"] = io::json_number(trace.output_difference);
  return json_text(object);
}

std::string to_json(const AttentionMaps& maps) {
  const std::string title =
      fmt::format("{} queries, {} keys, {} heads", maps.queries(), maps.keys(), maps.batch() * maps.heads());
  OrderedJson object = json_object("maps", selected_target(), maps.dtype(), title);
  object.update({{"queries", maps.queries()},
                 {"keys", maps.keys()},
                 {"tile", kMapTile},
                 {"whole", maps.whole()},
                 {"cost", to_object(maps.cost())}});
  OrderedJson& heads = object["heads"] = OrderedJson::array();
  for (std::int64_t b = 0; b < maps.batch(); ++b) {
    for (std::int64_t h = 0; h < maps.heads(); ++h) {
      const MapHead head{b, h};
      MapViews map{.queries = maps.queries(), .keys = maps.keys(), .blocks = maps.blocks(head)};
      if (std::ranges::find(maps.keep(), head) != maps.keep().end()) {
        if (!maps.whole()) {
          map.top_keys = maps.top_keys(head);
          map.top_weights = maps.top_weights(head);
        }
        if (!maps.keep_rows().empty()) {
          map.rows = maps.rows(head);
          map.row_numbers = maps.keep_rows();
        }
      }
      OrderedJson one = {{"batch", b}, {"head", h}};
      one.update(to_object(map));
      heads.push_back(std::move(one));
    }
  }
  return json_text(object);
}

std::string to_json(const TokenMeasures& measures) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = measures.attentions;
  const AttentionSequence& sequence = sequences[measures.sequence];
  const std::string& name = sequence.tokens[static_cast<std::size_t>(measures.token)];
  OrderedJson object = json_object("token", selected_target(), Dtype::f32,
                                   (outputs ? fmt::format("What \"{}\" came from", name)
                                            : fmt::format("Measures of token {}, \"{}\"", measures.token, name)) +
                                       without(measures.attentions),
                                   measures.fingerprint);
  object["input"] = input;
  object["sequence"] = sequence.name;
  object["cut"] = cut_of(measures.attentions);
  object["tokens"] = sequence.tokens;
  object["token"] = measures.token;
  object["log_probability"] =
      measures.log_probability ? io::json_number(*measures.log_probability) : OrderedJson(nullptr);
  if (measures.score) object["score"] = io::json_number(*measures.score);
  object["keys"] = json_list(measures.keys, [&](const TokenMeasures::Keys& keys) -> OrderedJson {
    const AttentionSite& site = measures.attentions.sites[keys.site];
    std::vector<std::string> tokens = measures.attentions.sequences[site.keys].tokens;
    if (!keys.by.empty()) tokens.resize(keys.by.front().values.size());
    return {{"attention", site.name}, {"tokens", tokens}, {"measures", measured(keys.by)}};
  });
  object["heads"] = {{"all", places_of(measures.heads, sites)}, {"measures", measured(measures.by_heads)}};
  if (outputs) {
    object["words"] = {{"all", sequences[sites[0].keys].words.words}, {"measures", measured(measures.by_words)}};
  }
  return json_text(object);
}

}  // namespace qkv
