// Declares the options of tables of relative positions, and reads them.
#include "inputs/table_options.h"

#include "inputs/options.h"

namespace qkv::app {

std::vector<Option> table_options(TableOptions& options) {
  auto& [clipped, t5, swin, shaw] = options.tables;
  const Names<bool> yes_or_no = {{"yes", true}, {"no", false}};
  const Value window{
      .target = &options.swin_window, .type = "H,W", .check = whole_number(1, 1024), .delimiter = ',', .count = 2};
  return {{clipped.option, file(clipped.path), "f32 [2 n + 1, heads]: added by key minus query position, clipped to n"},
          {t5.option, file(t5.path), "f32 [buckets, heads]: added by the buckets of T5"},
          {"--t5-max-distance", size(options.t5_buckets.max_distance, std::int64_t{1} << 24),
           "distances from here on share one bucket (default 128)", needs(t5.option)},
          {"--t5-bidirectional", choice(options.t5_buckets.bidirectional, yes_or_no),
           "separate buckets for keys after the query (default yes)", needs(t5.option)},
          {swin.option, file(swin.path), "f32 [(2 H - 1) (2 W - 1), heads]: added by the cells of a window, as in Swin",
           needs("--swin-window")},
          {"--swin-window", window, "height and width of the window", needs(swin.option)},
          {shaw.option, file(shaw.path),
           "f32 [2 n + 1, head_dim]: scale q . row is added, by key minus query position, clipped to n (Shaw)"}};
}

std::vector<Option> table_gradient_options(TableOptions& options) {
  std::vector<Option> list;
  for (std::size_t i = 0; i < options.tables.size(); ++i) {
    list.push_back({options.gradients[i].option, file(options.gradients[i].path), "output: gradient of that table",
                    needs(options.tables[i].option, "--grad-out")});
  }
  return list;
}

Tables read_tables(const TableOptions& options, Dtype accumulation) {
  Tables tables;
  for (std::size_t i = 0; i < tables.arrays.size(); ++i) {
    const NamedFile& file = options.tables[i];
    if (file.given()) tables.arrays[i] = read_parameter(file.option, file.path, accumulation);
  }
  return tables;
}

Bias Tables::bias(const TableOptions& options) const {
  const auto& [clipped, t5, swin, shaw] = arrays;
  const auto& given = options.tables;
  Bias bias;
  if (given[0].given()) bias = bias + Bias::table(RelativeTable::clipped(clipped));
  if (given[1].given()) bias = bias + Bias::table(RelativeTable::t5(t5, options.t5_buckets));
  if (given[2].given()) {
    bias = bias + Bias::table(RelativeTable::swin(swin, options.swin_window[0], options.swin_window[1]));
  }
  if (given[3].given()) bias = bias + Bias::table(RelativeTable::shaw(shaw));
  return bias;
}

}  // namespace qkv::app
