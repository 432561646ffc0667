// Declares what a report of `attend` keeps, and writes it.
#include "attend_maps.h"

#include <fmt/format.h>

#include "qkv/files.h"

namespace qkv::app {
namespace {

MapHead parse_head(const std::string& text) {
  const std::size_t point = text.find('.');
  const auto batch = parse_whole(text.substr(0, point));
  const auto head = point == std::string::npos ? std::nullopt : parse_whole(text.substr(point + 1));
  if (!batch || !head) {
    throw UsageError("--keep", "\"" + text + "\" must be two numbers, BATCH.HEAD, 0.2 for head 2 without a batch");
  }
  return {*batch, *head};
}

}  // namespace

AttendMaps::AttendMaps(Command& command) {
  command.add({html_option(
      report_, excludes("--block-weights", "--top-keys", "--row-weights", "--offsets-query", "--offsets-key"))});
  command.add(kept_head_options(keep_, "BATCH.HEAD", needs("--html")));
}

void AttendMaps::check(const std::vector<NamedFile>& files) const { report_.check(files); }

void AttendMaps::allocate(const RowShapes& shapes, AttentionExtras& extras) {
  if (!report_.wanted()) return;
  AttentionMapsOptions options{.keep_rows = keep_.rows};
  for (const std::string& head : keep_.heads) options.keep.push_back(parse_head(head));
  maps_.emplace(shapes.rows, shapes.length, shapes.dtype, options);
  const AttentionExtras own = maps_->extras();
  extras.block_weights = own.block_weights;
  extras.top_keys = own.top_keys;
  extras.top_weights = own.top_weights;
  extras.rows = own.rows;
  extras.row_weights = own.row_weights;
}

void AttendMaps::draw(const std::string& command) {
  if (!maps_) return;
  report_.report.add(*maps_);
  text_ =
      report_.report.html(fmt::format("Attention of {} queries to {} keys", maps_->queries(), maps_->keys()), command);
}

void AttendMaps::write() const {
  if (maps_) write_file(report_.path, text_);
}

}  // namespace qkv::app
