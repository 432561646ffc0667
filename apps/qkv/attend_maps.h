// attend --html: the weights as a report, of long inputs as averages over blocks (qkv/explain/attention_maps.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attend_outputs.h"
#include "kept_heads.h"
#include "qkv/explain/attention_maps.h"
#include "report_file.h"

namespace qkv::app {

class AttendMaps {
 public:
  explicit AttendMaps(Command& command);

  // UsageError or IoError for a report that would lose one of these files or could not be written.
  void check(const std::vector<NamedFile>& files) const;
  // Adds what the report needs to what attention() writes; nothing if none is wanted.
  void allocate(const RowShapes& shapes, AttentionExtras& extras);
  // If one is wanted.
  bool wanted() const { return maps_.has_value(); }
  void set_cost(const AttentionPlan& cost) { maps_->set_cost(cost); }
  // Once attention() is done.
  void draw(const std::string& command);
  void write() const;

 private:
  ReportFile report_{};
  KeptHeads keep_{};
  std::optional<AttentionMaps> maps_{};
  std::string text_{};
};

}  // namespace qkv::app
