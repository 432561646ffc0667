// Reads which heads and keys a model's run is to do without.
#include "left_out_options.h"

#include "head_places.h"
#include "qkv/explain/explain_model.h"

namespace qkv::app {
LeftOut LeftOutOptions::of(const Attentions& attentions) const {
  LeftOut all;
  for (const std::string& text : heads) all.heads.push_back(head_at("--without-head", text, attentions.sites));
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
