// Reads which heads and keys a model's run is to do without.
#include "left_out_options.h"

#include <charconv>

#include "qkv/explain/explain_model.h"

namespace qkv::app {
namespace {

// "encoder-decoder.0.1" is 0.1 of that attention; of a model with one attention its name is not said.
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

HeadIndex head_of(const std::string& text, const std::vector<AttentionSite>& sites) {
  const auto [site, place] = place_of("--without-head", text, sites);
  HeadIndex head{.site = site};
  const char* end = place.data() + place.size();
  const auto layer = std::from_chars(place.data(), end, head.layer);
  const bool has_head = layer.ec == std::errc() && layer.ptr != end && *layer.ptr == '.';
  const auto last = has_head ? std::from_chars(layer.ptr + 1, end, head.head) : layer;
  if (!has_head || last.ec != std::errc() || last.ptr != end) {
    throw UsageError("--without-head", "\"" + text + "\" must be a layer and a head, as 0.1");
  }
  return head;
}

}  // namespace

LeftOut LeftOutOptions::of(const Attentions& attentions) const {
  LeftOut all;
  for (const std::string& text : heads) all.heads.push_back(head_of(text, attentions.sites));
  for (const std::string& text : keys) {
    const auto [site, token] = place_of("--without-key", text, attentions.sites);
    all.keys.push_back({find_token(attentions.sequences[attentions.sites[site].keys].tokens, token), site});
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
           {.target = &options.heads, .type = "LAYER.HEAD", .count = 1, .takes_words = false},
           "with a model: this head gives 0; of a translation model with its attention, \"encoder-decoder.0.1\"; may "
           "be repeated",
           repeated() & rules},
          {"--without-key",
           {.target = &options.keys, .type = "TOKEN", .count = 1, .takes_words = false},
           "with a model: this token is hidden from every query in all layers; of a translation model with the "
           "attention, \"encoder-decoder.3\"; may be repeated",
           repeated() & rules}};
}

}  // namespace qkv::app
