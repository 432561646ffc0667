// Applies a charsmap cluster by cluster.
#include "text/precompiled.h"

#include "core/stop.h"
#include "text/clusters.h"

namespace qkv::text {

bool Precompiled::replace(CharacterSpan part, Characters& result) const {
  const Charsmap::Match match = rules_.shortest(part);
  if (match.length > 0) append_replacement(result, part, match.replacement);
  return match.length > 0;
}

Characters Precompiled::normalize(CharacterSpan text) const {
  constexpr std::size_t kLongestInBytes = 5;
  Characters result;
  result.reserve(text.size());
  StopTurns turns;
  while (!text.empty()) {
    turns.next();
    const CharacterSpan cluster = text.first(first_cluster(text));
    text = text.subspan(cluster.size());
    if (to_utf8(cluster).size() <= kLongestInBytes && replace(cluster, result)) continue;
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      if (!replace(cluster.subspan(i, 1), result)) result.push_back(cluster[i]);
    }
  }
  return result;
}

}  // namespace qkv::text
