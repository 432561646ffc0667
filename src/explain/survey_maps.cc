// Decides how fine the maps of a model's heads are, and makes them of the weights.
#include "explain/survey_maps.h"

#include <algorithm>
#include <string>

#include "explain/map_room.h"
#include "explain/require.h"
#include "qkv/explain/attention_maps.h"

namespace qkv::inline explaining {
namespace {

// Bytes of a weight that is kept, in JSON and in its table, and of a value's length, in JSON.
constexpr std::size_t kPerWeight = 12 + 16, kPerLength = 20;

std::int64_t count_of(const Attentions& attentions, std::size_t sequence) {
  return std::ssize(attentions.sequences[sequence].tokens);
}

// Means over equal parts of the rows and of the columns.
Tensor means_of_blocks(const Tensor& weights, std::int64_t rows, std::int64_t columns) {
  const std::int64_t queries = weights.size(0), keys = weights.size(1);
  std::vector<double> sums(static_cast<std::size_t>(rows * columns));
  std::vector<float> means(sums.size()), counts(sums.size());
  const double* weight = weights.data<double>();
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto cell = static_cast<std::size_t>(i * rows / queries * columns + j * columns / keys);
      sums[cell] += *weight++;
      ++counts[cell];
    }
  }
  for (std::size_t cell = 0; cell < sums.size(); ++cell) means[cell] = static_cast<float>(sums[cell] / counts[cell]);
  return Tensor::of<float>({rows, columns}, means);
}

void keep_top(HeadMap& map, const Tensor& weights) {
  const std::int64_t queries = weights.size(0), top = std::min(weights.size(1), AttentionMaps::kTop);
  map.top_keys = Tensor::uninitialized({queries, top}, Dtype::i64);
  map.top_weights = Tensor::uninitialized({queries, top}, Dtype::f32);
  std::int64_t* key = map.top_keys.data<std::int64_t>();
  float* weight = map.top_weights.data<float>();
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::vector<std::int64_t> strongest = keys_by_weight(weights, i);
    for (std::int64_t n = 0; n < top; ++n) {
      const std::int64_t j = strongest[static_cast<std::size_t>(n)];
      const double own = weights.view().at<double>({i, j});
      *key++ = own == 0 ? -1 : j;
      *weight++ = static_cast<float>(own);
    }
  }
}

void check_there(const Attentions& attentions, const HeadIndex& head, const std::vector<std::int64_t>& rows) {
  const AttentionSite& site = attentions.sites[head.site];
  const std::string name =
      fmt::format("{}{}.{}", attentions.sites.size() > 1 ? site.option() + "." : "", head.layer, head.head);
  require(head.layer >= 0 && head.layer < site.layers && head.head >= 0 && head.head < site.heads,
          "there is no head {} to keep; the layers are 0 to {}, the heads 0 to {}", name, site.layers - 1,
          site.heads - 1);
  const std::int64_t queries = count_of(attentions, site.queries);
  for (const std::int64_t row : rows) {
    require(row >= 0 && row < queries, "there is no row {} of head {} to keep; the rows are 0 to {}", row, name,
            queries - 1);
  }
}

}  // namespace

SurveyMaps::SurveyMaps(const Attentions& attentions, const HeadMapsOptions& options)
    : attentions_(attentions), options_(options) {
  check_kept(options.keep.size(), options.keep_rows.size());
  for (const HeadIndex& head : options.keep) check_there(attentions, head, options.keep_rows);
  std::vector<MapSizes> sizes;
  std::size_t beside = 0;
  for (std::size_t s = 0; s < attentions.sites.size(); ++s) {
    const AttentionSite& site = attentions.sites[s];
    const std::int64_t queries = count_of(attentions, site.queries), keys = count_of(attentions, site.keys);
    const std::int64_t heads = site.layers * site.heads;
    beside += static_cast<std::size_t>(heads * keys) * kPerLength;
    if (is_long(s)) {
      sizes.push_back({heads, queries, keys, std::ranges::count(options.keep, s, &HeadIndex::site),
                       std::min(keys, AttentionMaps::kTop)});
    } else {
      beside += static_cast<std::size_t>(heads * queries * keys) * kPerWeight;
    }
  }
  grid_ =
      finest_grid(sizes, std::ssize(options.keep_rows), Dtype::f32, options.bytes - std::min(options.bytes, beside));
}

bool SurveyMaps::is_long(std::size_t site) const {
  const AttentionSite& own = attentions_.sites[site];
  return std::max(count_of(attentions_, own.queries), count_of(attentions_, own.keys)) > AttentionMaps::kWhole;
}

HeadMap SurveyMaps::map(const HeadIndex& head, const Tensor& weights) const {
  HeadMap map;
  map.blocks = means_of_blocks(weights, std::min(weights.size(0), grid_), std::min(weights.size(1), grid_));
  if (std::ranges::find(options_.keep, head) == options_.keep.end()) return map;
  keep_top(map, weights);
  if (options_.keep_rows.empty()) return map;
  map.rows = Tensor::uninitialized({std::ssize(options_.keep_rows), weights.size(1)}, Dtype::f32);
  for (std::int64_t i = 0; i < map.rows.size(0); ++i) {
    convert(weights.view().select(0, options_.keep_rows[static_cast<std::size_t>(i)]), map.rows.view().select(0, i));
  }
  return map;
}

}  // namespace qkv::inline explaining
