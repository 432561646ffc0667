// Declares the options of tables of relative positions, and reads them.
#include "table_options.h"

#include "options.h"

namespace qkv::app {

void add_table_options(CLI::App& command, TableOptions& options) {
  add_file(command, options.clipped.option, options.clipped.path,
           "f32 [2 n + 1, heads]: added by key minus query position, clipped to n");
  CLI::Option* t5 =
      add_file(command, options.t5.option, options.t5.path, "f32 [buckets, heads]: added by the buckets of T5");
  command
      .add_option("--t5-max-distance", options.t5_buckets.max_distance,
                  "all distances from here on share a bucket (default 128)")
      ->check(whole_number(1, std::int64_t{1} << 24))
      ->needs(t5)
      ->type_name("N");
  add_choice(command, "--t5-bidirectional", options.t5_buckets.bidirectional,
             std::vector<std::pair<std::string, bool>>{{"yes", true}, {"no", false}},
             "whether keys after the query have their own buckets (default yes)")
      ->needs(t5);
  CLI::Option* swin = add_file(command, options.swin.option, options.swin.path,
                               "f32 [(2 H - 1) (2 W - 1), heads]: added by the cells of a window, as in Swin");
  CLI::Option* window = command.add_option("--swin-window", options.swin_window, "height and width of the window")
                            ->delimiter(',')
                            ->expected(2)
                            ->check(whole_number(1, 1024))
                            ->needs(swin)
                            ->type_name("H,W");
  swin->needs(window);
  add_file(command, options.shaw.option, options.shaw.path,
           "f32 [2 n + 1, head_dim]: scale q . row is added, by key minus query position, clipped to n (Shaw)");
}

void add_table_gradients(CLI::App& command, TableOptions& options, CLI::Option* grad_out) {
  const auto add = [&](NamedFile& file, const NamedFile& table) {
    add_file(command, file.option, file.path, "the gradient of that table to write")
        ->needs(command.get_option(table.option))
        ->needs(grad_out);
  };
  add(options.grad_clipped, options.clipped);
  add(options.grad_t5, options.t5);
  add(options.grad_swin, options.swin);
  add(options.grad_shaw, options.shaw);
}

Tables read_tables(const TableOptions& options, Dtype accumulation) {
  const auto read = [&](const NamedFile& file) {
    return file.given() ? read_parameter(file.option, file.path, accumulation) : Tensor();
  };
  return {
      .clipped = read(options.clipped), .t5 = read(options.t5), .swin = read(options.swin), .shaw = read(options.shaw)};
}

Bias Tables::bias(const TableOptions& options) const {
  Bias bias;
  if (options.clipped.given()) bias = bias + Bias::table(RelativeTable::clipped(clipped));
  if (options.t5.given()) bias = bias + Bias::table(RelativeTable::t5(t5, options.t5_buckets));
  if (options.swin.given()) {
    bias = bias + Bias::table(RelativeTable::swin(swin, options.swin_window[0], options.swin_window[1]));
  }
  if (options.shaw.given()) bias = bias + Bias::table(RelativeTable::shaw(shaw));
  return bias;
}

std::vector<std::pair<const Tensor*, NamedFile>> Tables::gradients(const TableOptions& options) const {
  std::vector<std::pair<const Tensor*, NamedFile>> list;
  if (options.clipped.given()) list.emplace_back(&clipped, options.grad_clipped);
  if (options.t5.given()) list.emplace_back(&t5, options.grad_t5);
  if (options.swin.given()) list.emplace_back(&swin, options.grad_swin);
  if (options.shaw.given()) list.emplace_back(&shaw, options.grad_shaw);
  return list;
}

}  // namespace qkv::app
