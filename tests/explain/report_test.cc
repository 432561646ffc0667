// Reports: the data are the JSON, the tables can be read, text stays text, and the file is never too large.
#include "qkv/explain/report.h"

#include <nlohmann/json.hpp>

#include "explain/example.h"

namespace qkv::test {
namespace {

using Json = nlohmann::json;

// Between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  return text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
}

Json data_of(const std::string& html) {
  return Json::parse(between(html, R"(<script type="application/json" id="data">)", "</script>"));
}

std::string report_of(const Explanation& explanation) {
  Report report;
  report.add(explanation);
  return report.html("A title", "qkv explain --html a.html");
}

// `count` heads of one layer, each with the same weights of n x n tokens.
HeadSurvey survey_of(std::int64_t count, std::int64_t n) {
  AttentionSequence tokens{.name = "tokens"};
  for (std::int64_t i = 0; i < n; ++i) {
    tokens.tokens.push_back("t" + std::to_string(i));
    tokens.special.push_back(0);
  }
  HeadSurvey survey;
  survey.attentions = {.sequences = {tokens},
                       .sites = {{.name = "attention", .layers = 1, .heads = count, .model_dim = 1}},
                       .input = "many tokens"};
  Tensor weights = Tensor::zeros({n, n}, Dtype::f64);
  for (std::int64_t i = 0; i < n * n; ++i) weights.data<double>()[i] = 1.0 / (3.0 + static_cast<double>(i));
  for (std::int64_t head = 0; head < count; ++head) {
    survey.heads.push_back({.index = {.layer = 0, .head = head}, .summary = {}, .weights = weights});
  }
  return survey;
}

TEST(Report, HoldsTheJsonOfWhatItExplains) {
  const Explanation explanation = explain(worked_example());
  const std::string html = report_of(explanation);
  const Json data = data_of(html);
  EXPECT_EQ(data.at("schema"), "qkv/report/1");
  EXPECT_EQ(data.at("title"), "A title");
  EXPECT_EQ(data.at("command"), "qkv explain --html a.html");
  EXPECT_TRUE(data.at("left_out").empty());
  ASSERT_EQ(data.at("explanations").size(), 1u);
  EXPECT_EQ(data.at("explanations").at(0), Json::parse(to_json(explanation)));
  EXPECT_EQ(html.find("<!--qkv:"), std::string::npos);
  EXPECT_TRUE(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
  EXPECT_EQ(between(html, "<title>", "</title>"), "A title");
}

TEST(Report, HoldsSeveralExplanations) {
  Report report;
  report.add(explain(worked_example()));
  report.add(survey_of(2, 3));
  const Json data = data_of(report.html("Two", ""));
  ASSERT_EQ(data.at("explanations").size(), 2u);
  EXPECT_EQ(data.at("explanations").at(1).at("kind"), "heads");
  EXPECT_NEAR(data.at("explanations").at(1).at("attentions").at(0).at("all").at(1).at("weights").at(2).at(2), 1.0 / 11,
              1e-6);
}

// Weights and outputs by hand: 1 / (1 + 2 e^2), and the sums of values that follow.
TEST(Report, ShowsNumbersWithFiveDecimalsWithoutScripts) {
  const std::string html = report_of(explain(worked_example()));
  const std::string tables = between(html, "<div id=\"report\">", "<script");
  EXPECT_NE(tables.find("<h1>A title</h1>"), std::string::npos);
  const std::string output = between(tables, "<caption>output</caption>", "</table>");
  EXPECT_NE(output.find("<td>1.93662</td><td>6.68311</td><td>1.59507</td>"), std::string::npos) << output;
  EXPECT_NE(output.find("<th scope=\"row\"><bdi>output 1</bdi></th>"), std::string::npos);
  EXPECT_NE(between(tables, "<caption>weights</caption>", "</table>").find("<td>0.06338</td>"), std::string::npos);
  Report heads;
  heads.add(survey_of(1, 3));
  const std::string of_head = heads.html("", "");
  EXPECT_NE(between(of_head, "<caption>weights, layer 0, head 0</caption>", "</table>").find("<td>0.33333</td>"),
            std::string::npos);
}

TEST(Report, ShowsMarkupAsText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>'\"&<!--qkv:data-->\x01\xff";
  ExplainInput input = worked_example();
  input.title = hostile;
  input.labels = {hostile, "b", "c"};
  Report report;
  report.add(explain(input));
  const std::string html = report.html(hostile, hostile);
  EXPECT_EQ(html.find("<img src=x"), std::string::npos);
  EXPECT_EQ(html.find("<!--qkv:"), std::string::npos);
  EXPECT_EQ(html.find('\x01'), std::string::npos);
  EXPECT_EQ(html.find('\xff'), std::string::npos);
  EXPECT_NE(html.find("<bdi>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&#39;&quot;&amp;&lt;!--qkv:data--&gt;"
                      "\xEF\xBF\xBD\xEF\xBF\xBD</bdi>"),
            std::string::npos);
  EXPECT_EQ(data_of(html).at("command"), "</script><img src=x onerror=alert(1)>'\"&<!--qkv:data-->\x01\xEF\xBF\xBD");
}

// 2.1 million weights of 9 digits or more are 23 MB.
TEST(Report, LeavesOutWhatIsTooLargeAndSaysSo) {
  Report report;
  report.add(survey_of(32, 256));
  report.add(explain(worked_example()));
  const std::string html = report.html("Large", "");
  EXPECT_LE(html.size(), kLargestReport);
  const Json data = data_of(html);
  ASSERT_FALSE(data.at("left_out").empty());
  const std::string last = data.at("left_out").back();
  EXPECT_NE(last.find("\"many tokens\": the weights of the heads are left out"), std::string::npos) << last;
  EXPECT_NE(html.find("<p>&quot;many tokens&quot;: the weights of the heads are left out"), std::string::npos);
  ASSERT_EQ(data.at("explanations").size(), 2u);
  EXPECT_TRUE(data.at("explanations").at(0).at("attentions").at(0).at("all").at(31).at("weights").is_null());
  EXPECT_EQ(data.at("explanations").at(1).at("kind"), "steps");
}

// Weights that cannot fit are never written as text: 64 heads would take 46 MB.
TEST(Report, LeavesOutWeightsBeforeItWritesThem) {
  Report report;
  report.add(survey_of(64, 256));
  const Json data = data_of(report.html("Larger", ""));
  ASSERT_EQ(data.at("left_out").size(), 1u);
  EXPECT_TRUE(data.at("explanations").at(0).at("attentions").at(0).at("all").at(0).at("weights").is_null());
}

TEST(Report, WithoutExplanationsIsStillAPage) {
  const std::string html = Report().html("Nothing", "");
  EXPECT_TRUE(data_of(html).at("explanations").empty());
}

}  // namespace
}  // namespace qkv::test
