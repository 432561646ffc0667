// Reads how options name heads and tokens.
#include "head_places.h"

#include "command_line.h"

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

HeadIndex head_at(const char* option, const std::string& text, const std::vector<AttentionSite>& sites) {
  const auto [site, place] = place_of(option, text, sites);
  const std::size_t point = place.find('.');
  const auto layer = parse_whole(place.substr(0, point));
  const auto head = point == std::string::npos ? std::nullopt : parse_whole(place.substr(point + 1));
  if (!layer || !head) throw UsageError(option, "\"" + text + "\" must be a layer and a head, as 0.1");
  return {.layer = *layer, .head = *head, .site = site};
}

}  // namespace qkv::app
