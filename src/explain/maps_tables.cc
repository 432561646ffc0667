// Maps of attention as HTML tables: every weight of a short input, a line for each head of a long one.
#include <fmt/format.h>

#include <algorithm>

#include "explain/html_table.h"
#include "explain/numbers.h"
#include "explain/pyramid.h"
#include "explain/report_tables.h"

namespace qkv::inline explaining {

std::string report_tables(const AttentionMaps& maps) {
  std::string text, lines;
  for (std::int64_t b = 0; b < maps.batch(); ++b) {
    for (std::int64_t h = 0; h < maps.heads(); ++h) {
      const MapHead head{b, h};
      const std::string name = fmt::format("head {}.{}", b, h);
      if (maps.whole()) {
        text += html_table("weights, " + name, convert(maps.rows(head), Dtype::f64));
      } else {
        const double largest = largest_mean(pyramid_of(maps.blocks(head), maps.queries(), maps.keys()).front());
        lines += html_element("tr", html_row_head(name) + html_cell(largest)) + "\n";
      }
    }
  }
  if (maps.whole()) return text;
  const TensorView blocks = maps.blocks({});
  return "<table>" +
         html_element("caption", fmt::format("The largest mean of {} x {} equal parts of the {} x {} weights",
                                             blocks.size(0), blocks.size(1), maps.queries(), maps.keys())) +
         "\n" + lines + "</table>\n";
}

}  // namespace qkv::inline explaining
