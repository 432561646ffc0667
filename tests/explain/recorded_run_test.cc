// A run that was recorded as JSON: what it says of itself, and what is refused.
#include <gtest/gtest.h>

#include "explain/example.h"
#include "qkv/error.h"
#include "qkv/explain/report.h"

namespace qkv::test {
namespace {

TEST(RecordedRun, SaysItsKind) {
  const std::string json = to_json(explain(worked_example()));
  const RecordedRun run = read_recorded_run(json + "\n", "a.json");
  EXPECT_EQ(run.kind, "steps");
  EXPECT_EQ(run.json, json + "\n");
  EXPECT_EQ(read_recorded_run(R"({"kind":"head","more":[{"kind":"x"}],"schema":"qkv/explain/1"})", "").kind, "head");
}

TEST(RecordedRun, RefusesInOneLineThatNamesTheFile) {
  const std::string other =
      R"(a.json: is not what explain --json writes: it has no "schema": "qkv/explain/1" and no "kind")";
  for (const auto& [json, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "a.json: not valid JSON at line 1, column 1"},
           {R"({"schema":"qkv/explain/1","kind":"steps")", "a.json: not valid JSON at line 1, column 41"},
           {R"({"schema":"qkv/explain/1","kind":"steps"} {})", "a.json: not valid JSON at line 1, column 43"},
           {"[]", other},
           {"{}", other},
           {R"("qkv/explain/1")", other},
           {R"({"schema":"qkv/explain/1"})", other},
           {R"({"schema":"qkv/report/1","kind":"steps"})", other},
           {R"({"inside":{"schema":"qkv/explain/1","kind":"steps"}})", other},
           {R"({"schema":"qkv/explain/2","kind":"steps"})",
            "a.json: is of version 2, this qkv reads version 1: write it again by explain --json"},
           {R"({"schema":"qkv/explain/10","kind":"steps"})",
            "a.json: is of version 10, this qkv reads version 1: write it again by explain --json"},
           {std::string("{}\0", 3), "a.json: not valid JSON at line 1, column 3: a zero byte"}}) {
    try {
      read_recorded_run(json, "a.json");
      ADD_FAILURE() << json;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.what(), message);
    }
  }
}

TEST(RecordedRun, StandsBesideInAReport) {
  const std::string json = to_json(explain(worked_example()));
  Report report;
  report.add(explain(worked_example()));
  report.add_beside(read_recorded_run(json, "a.json"));
  const std::string html = report.html("Two", "");
  EXPECT_NE(html.find("\"beside\":[" + json.substr(0, 60)), std::string::npos);
  EXPECT_EQ(html.find("\"beside\":[" + json.substr(0, 60)), html.rfind("\"beside\":["));
}

}  // namespace
}  // namespace qkv::test
