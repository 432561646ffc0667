// Reads which heads and tokens options name: those whose weights a report keeps, and those that a run does without.
#include "inputs/head_options.h"

#include <fmt/format.h>

#include "command_line.h"
#include "explain/observe/left_out_masks.h"
#include "qkv/explain/explain_model.h"

namespace qkv::app {

std::pair<std::size_t, std::string> place_of(const char* option, const std::string& text,
                                             const std::vector<AttentionSite>& sites) {
  if (sites.size() == 1) return {0, text};
  std::string names;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const std::string name = sites[i].option() + ".";
    if (text.starts_with(name)) return {i, text.substr(name.size())};
    names += (i == 0 ? "" : i + 1 < sites.size() ? ", " : " or ") + name;
  }
  throw UsageError(option, "\"" + text + "\" must begin with " + names);
}

HeadIndex head_at(const char* option, const std::string& text, const Attentions& attentions) {
  const auto [site, place] = place_of(option, text, attentions.sites);
  const std::size_t point = place.find('.');
  const auto layer = parse_whole(place.substr(0, point));
  const auto head = point == std::string::npos ? std::nullopt : parse_whole(place.substr(point + 1));
  if (!layer || !head) throw UsageError(option, "\"" + text + "\" must be a layer and a head, as 0.1");
  const HeadIndex index{.layer = *layer, .head = *head, .site = site};
  of_option(option, [&] { check_head(attentions, index); });
  return index;
}

namespace {

// Separated by commas: the word after it may be the text of a command.
template <class Item>
Value one_word(std::vector<Item>& variable, const char* type) {
  Value list = comma_list(variable, type);
  list.takes_words = false;
  return list;
}

}  // namespace

void KeptHeads::check(const ReportFile& report, bool json) const {
  if (given() && !report.wanted() && !json) throw UsageError("--keep", "needs --html or --json");
}

HeadMapsOptions KeptHeads::of(const Attentions& attentions) const {
  HeadMapsOptions options{.keep_rows = rows};
  for (const std::string& text : heads) options.keep.push_back(head_at("--keep", text, attentions));
  for (const HeadIndex& head : options.keep) {
    const auto queries = std::ssize(attentions.sequences[attentions.sites[head.site].queries].tokens);
    for (const std::int64_t row : rows) {
      if (row < 0 || row >= queries) {
        throw UsageError("--keep-rows", fmt::format("there is no query {}; there are 0 to {}", row, queries - 1));
      }
    }
  }
  return options;
}

std::vector<Option> kept_head_options(KeptHeads& kept, const char* form, const Rules& rules) {
  return {
      {"--keep", one_word(kept.heads, form),
       "Keep the 32 strongest keys per query of up to 4 heads when a report averages (more than 64 queries or keys)",
       rules},
      {"--keep-rows", one_word(kept.rows, "N"), "Keep all weights of up to 16 queries of these heads",
       needs("--keep")}};
}

HeadSurvey reported_survey(const Explainable& input, const SurveyOptions& options, const KeptHeads& kept,
                           ReportFile& report, const std::string& fingerprint) {
  SurveyOptions all = options;
  if (report.wanted() || kept.given()) all.maps = kept.of(input.attentions());
  HeadSurvey survey = survey_heads(input, all);
  survey.fingerprint = fingerprint;
  if (report.wanted()) report.report.add(survey);
  if (kept.given()) return survey;
  for (HeadSurvey::Entry& entry : survey.heads) {
    entry.map.reset();
    if (!options.keep_weights) entry.weights = {};
  }
  return survey;
}

LeftOut LeftOutOptions::of(const Attentions& attentions) const {
  LeftOut all;
  for (const std::string& text : heads) all.heads.push_back(head_at("--without-head", text, attentions));
  for (const std::string& text : keys) {
    const auto [site, token] = place_of("--without-key", text, attentions.sites);
    const std::vector<std::string>& tokens = attentions.sequences[attentions.sites[site].keys].tokens;
    all.keys.push_back({of_option("--without-key", [&] { return find_token(tokens, token); }), site});
  }
  return all;
}

std::string LeftOutOptions::words() const {
  std::string all;
  for (const std::string& head : heads) all += " --without-head " + shell_word(head);
  for (const std::string& key : keys) all += " --without-key " + shell_word(key);
  return all;
}

std::vector<Option> left_out_options(LeftOutOptions& options, const Rules& rules) {
  return {{"--without-head",
           {.variable = &options.heads, .type = "LAYER.HEAD", .count = 1, .takes_words = false},
           "With a model: make this head output 0; for a translation model name its attention, "
           "\"encoder-decoder.0.1\"; may "
           "be repeated",
           repeated() & rules},
          {"--without-key",
           {.variable = &options.keys, .type = "TOKEN", .count = 1, .takes_words = false},
           "With a model: hide this token from every query in all layers; for a translation model name the attention, "
           "\"encoder-decoder.3\"; may be repeated",
           repeated() & rules}};
}

}  // namespace qkv::app
