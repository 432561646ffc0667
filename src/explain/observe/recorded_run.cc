// Reads the first members of the JSON of a run; the rest is checked to be JSON and kept as text.
#include <fmt/format.h>

#include <string_view>

#include "io/json/json_events.h"
#include "qkv/explain/report.h"

namespace qkv {
namespace {

class RecordedRunEvents : public io::JsonEvents {
 public:
  using JsonEvents::JsonEvents;

  // Refuses what explain did not write, or of another major version.
  std::string checked_kind() const {
    constexpr std::string_view kSchema = "qkv/explain/", kVersion = "1";
    if (!schema_.starts_with(kSchema) || kind_.empty()) {
      refuse(R"(is not what explain --json writes: it has no "schema": "qkv/explain/1" and no "kind")");
    }
    const std::string version = schema_.substr(kSchema.size());
    if (version != kVersion) {
      refuse(fmt::format("has version {}, but this qkv reads version {}: write it again with explain --json", version,
                         kVersion));
    }
    return kind_;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool start_array(std::size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(std::string& name) override {
    if (depth_ == 1) member_ = name;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 1 && member_ == "schema") schema_ = text;
    if (depth_ == 1 && member_ == "kind") kind_ = text;
    return true;
  }

 private:
  std::string why_not(std::string_view kind) const override { return std::string(kind); }

  std::string schema_{}, kind_{};
  std::string member_{};  // of the whole object
  int depth_ = 0;
};

}  // namespace

RecordedRun read_recorded_run(std::string json, const std::string& name) {
  RecordedRunEvents events(name);
  events.parse(json);
  return {events.checked_kind(), std::move(json)};
}

}  // namespace qkv
