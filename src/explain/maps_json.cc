// Attention over long inputs as one JSON object.
#include <fmt/format.h>

#include <algorithm>

#include "explain/json_object.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/target.h"

namespace qkv {

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

}  // namespace qkv
