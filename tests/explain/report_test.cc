// Reports: the data are the JSON, the tables can be read, text stays text, and the file is never too large; and runs
// that were recorded, which stand beside.
#include "qkv/explain/report.h"

#include "explain/chosen.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using test::holds;
using test::Json;

// Between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  return text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
}

Json data_of(const std::string& html) {
  return Json::parse(between(html, R"(<script type="application/json" id="data">)", "</script>"));
}

// `count` heads of one layer, each with the same weights of n x n tokens.
HeadSurvey survey_of(std::int64_t count, std::int64_t n) {
  HeadSurvey survey;
  survey.attentions = {.sequences = {{.name = "tokens", .tokens = test::Strings(static_cast<std::size_t>(n), "t")}},
                       .sites = {{.name = "attention", .layers = 1, .heads = count, .model_dim = 1}},
                       .input = "many tokens"};
  const Tensor weights =
      test::filled(n, n, [n](auto i, auto j) { return 1.0 / (3.0 + static_cast<double>(i * n + j)); });
  for (std::int64_t head = 0; head < count; ++head) {
    survey.heads.push_back({.index = {.layer = 0, .head = head}, .summary = {}, .weights = weights});
  }
  return survey;
}

TEST(Report, HoldsTheJsonAndTablesOfAllKinds) {
  HeadSurvey survey = test::chosen_survey();
  survey.heads[0].weights = test::filled(4, 4, [](auto i, auto j) { return i == j ? 0.625 : 0.125; });
  ExplainInput one = worked_example();
  one.inputs = test::matrix(1, 4, {1, 0, 1, 0});
  one.tutorial = false;
  const Explanation explanation = explain(one);
  Report report;
  report.add(explanation);
  report.add(survey);
  report.add(test::chosen_trace(), 2);
  report.add(test::chosen_measures());
  report.add(test::chosen_picture(), test::chosen_view());
  report.add_beside(read_recorded_run(to_json(explanation), "a.json"));
  const std::string html = report.html("A title", "qkv explain --html a.html");
  const Json data = data_of(html);
  EXPECT_EQ(data, Json({{"schema", "qkv/report/1"},
                        {"title", "A title"},
                        {"command", "qkv explain --html a.html"},
                        {"left_out", Json::array()},
                        {"explanations",
                         {Json::parse(to_json(explanation)), Json::parse(to_json(survey)),
                          Json::parse(to_json(test::chosen_trace(), 2)), Json::parse(to_json(test::chosen_measures())),
                          Json::parse(to_json(test::chosen_picture(), test::chosen_view()))}},
                        {"beside", {Json::parse(to_json(explanation))}}}));
  EXPECT_FALSE(holds(html, "<!--qkv:"));
  EXPECT_TRUE(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
  EXPECT_EQ(between(html, "<title>", "</title>"), "A title");
  test::expect_golden("report.html", between(html, "<div id=\"report\">", "<script"));
  EXPECT_TRUE(data_of(Report().html("Nothing", "")).at("explanations").empty());
}

TEST(Report, ShowsMarkupAsText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>'\"&<!--qkv:data-->\x01\xff";
  ExplainInput input = worked_example();
  input.title = hostile;
  input.labels = {hostile, "b", "c"};
  Report report;
  report.add(explain(input));
  const std::string html = report.html(hostile, hostile);
  for (const char* part : {"<img src=x", "<!--qkv:", "\x01", "\xff"}) EXPECT_FALSE(holds(html, part)) << part;
  EXPECT_TRUE(holds(html,
                    "<bdi>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&#39;&quot;&amp;&lt;!--qkv:data--&gt;"
                    "\xEF\xBF\xBD\xEF\xBF\xBD</bdi>"));
  EXPECT_EQ(data_of(html).at("command"), "</script><img src=x onerror=alert(1)>'\"&<!--qkv:data-->\x01\xEF\xBF\xBD");
}

// 2.1 million weights of 9 digits or more are 23 MB: they go, and other explanations stay. Twice as many are never
// written as text.
TEST(Report, LeavesOutWhatIsTooLargeAndSaysSo) {
  for (const std::int64_t heads : {32, 64}) {
    Report report;
    report.add(survey_of(heads, 256));
    report.add(explain(worked_example()));
    const std::string html = report.html("Large", "");
    EXPECT_LE(html.size(), kLargestReport);
    const Json data = data_of(html);
    ASSERT_EQ(data.at("left_out").size(), heads == 32 ? 3u : 1u);
    const std::string last = data.at("left_out").back();
    EXPECT_TRUE(holds(last, "\"many tokens\": the weights of the heads are left out")) << last;
    EXPECT_TRUE(holds(html, "<p>&quot;many tokens&quot;: the weights of the heads are left out"));
    ASSERT_EQ(data.at("explanations").size(), 2u);
    EXPECT_TRUE(data.at("explanations").at(0).at("attentions").at(0).at("all").at(31).at("weights").is_null());
    EXPECT_EQ(data.at("explanations").at(1).at("kind"), "steps");
  }
}

TEST(RecordedRun, SaysItsKindOrIsRefusedInOneLineThatNamesTheFile) {
  const std::string good = R"({"kind":"head","more":[{"kind":"x"}],"schema":"qkv/explain/1"})";
  EXPECT_EQ(read_recorded_run(good + "\n", "a.json").kind, "head");
  EXPECT_EQ(read_recorded_run(good + "\n", "a.json").json, good + "\n");
  const std::string other =
      R"(a.json: is not what explain --json writes: it has no "schema": "qkv/explain/1" and no "kind")";
  const std::pair<std::string, std::string> rows[] = {
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
       "a.json: has version 2, but this qkv reads version 1: write it again with explain --json"},
      {R"({"schema":"qkv/explain/10","kind":"steps"})",
       "a.json: has version 10, but this qkv reads version 1: write it again with explain --json"},
      {std::string("{}\0", 3), "a.json: not valid JSON at line 1, column 3: a zero byte"}};
  for (const auto& [json, message] : rows) {
    EXPECT_EQ(test::message_of<FormatError>([&, &text = json] { read_recorded_run(text, "a.json"); }), message);
  }
}

}  // namespace
}  // namespace qkv
