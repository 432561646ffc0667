// --html of explain and translate: every kind becomes a file, and what would lose data is refused.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "apps/attend.h"
#include "apps/tiny_bert.h"
#include "explain/map_bytes.h"
#include "qkv/files.h"

namespace qkv::test {
namespace {

using Json = nlohmann::json;

Json data_in(const std::string& file) {
  const std::string html = contents(file), begin = R"(id="data">)";
  const std::size_t from = html.find(begin);
  if (from == std::string::npos) return {};
  return Json::parse(html.substr(from + begin.size(), html.find("</script>", from) - from - begin.size()));
}

// The first explanation of the report that this command writes beside what it prints.
Json explained(std::vector<std::string> arguments) {
  const TempFolder folder;
  const std::string plain = run_program(arguments).out;
  arguments.insert(arguments.end(), {"--html", folder / "report.html"});
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, plain);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"report.html"});
  const Json data = data_in(folder / "report.html");
  EXPECT_TRUE(data.at("command").get<std::string>().ends_with("--html " + folder / "report.html"))
      << data.at("command");
  return data.at("explanations").at(0);
}

TEST(ReportFile, HoldsEachKind) {
  EXPECT_EQ(explained({"explain"}).at("kind"), "steps");
  const TinyBert model;
  const std::vector<std::string> text = {"explain", "--model", model / "", "--text", "a b a"};
  const Json heads = explained(text);
  EXPECT_EQ(heads.at("kind"), "heads");
  EXPECT_EQ(heads.at("attentions").at(0).at("all").at(0).at("weights").size(), 3u);
  std::vector<std::string> one = text;
  one.insert(one.end(), {"--layer", "0", "--head", "1", "--token", "b"});
  EXPECT_EQ(explained(one).at("token"), 1);
  const Json picture = explained(
      {"explain", "--model", QKV_SOURCE_DIR "/models/digits", "--image", QKV_SOURCE_DIR "/data/example/seven.png"});
  EXPECT_EQ(picture.at("pixels").size(), 8u);
}

TEST(ReportFile, LeavesTheJsonAsItWas) {
  const TempFolder folder;
  const TinyBert model;
  const Outcome outcome =
      run_program({"explain", "--model", model / "", "--text", "a b", "--json", "--html", folder / "a.html"});
  EXPECT_TRUE(Json::parse(outcome.out).at("attentions").at(0).at("all").at(0).at("weights").is_null());
}

TEST(ReportFile, HasAnExplanationForEachSentence) {
  const TempFolder folder;
  const Outcome outcome =
      run_program({"translate", "--explain", "--html", folder / "a.html", "You are welcome", "Thank you.", "I'm home"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json data = data_in(folder / "a.html");
  ASSERT_EQ(data.at("explanations").size(), 3u);
  EXPECT_EQ(data.at("explanations").at(1).at("translation").at("source_text"), "Thank you.");
  EXPECT_EQ(data.at("command"),
            "qkv translate --explain --html " + folder / "a.html" + " 'You are welcome' 'Thank you.' 'I'\\''m home'");
}

TEST(ReportFile, ReplacesAnOlderReport) {
  const TempFolder folder;
  folder.put("a.html", "older");
  EXPECT_EQ(run_program({"explain", "--html", folder / "a.html"}).code, 0);
  EXPECT_TRUE(contents(folder / "a.html").starts_with("<!doctype html>"));
}

TEST(ReportFile, RefusesWhatWouldLoseDataOrCannotBeWritten) {
  const TempFolder folder;
  const TinyBert model;
  const std::string input = folder.put("input.csv", "1,2\n3,4\n");
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& part) {
    expect_message(run_program(arguments), code, "qkv " + arguments[0], part);
  };
  refused({"explain", "--input", input, "--html", folder / "./input.csv"}, 2, "is also the file of --input");
  refused({"explain", "--substitute", "weights=" + input, "--html", input}, 2, "is also the file of --substitute");
  refused({"explain", "--model", model / "", "--text", "a", "--html", model / "config.json"}, 2,
          "is also the file of --model");
  refused({"explain", "--html", folder / ""}, 4, "is a folder");
  refused({"explain", "--html", folder / "none/a.html"}, 4, "does not exist");
  refused({"translate", "--html", folder / "a.html", "Thank you"}, 2, "--html requires --explain");
  EXPECT_EQ(contents(input), "1,2\n3,4\n");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"input.csv"});
}

TEST(ReportFile, StandsBesideARunThatWasRecorded) {
  const TempFolder folder;
  const TinyBert model;
  const auto beside = [&](std::vector<std::string> arguments, const std::string& change, const char* value) {
    std::vector<std::string> other = arguments;
    other.insert(other.end(), {change, value, "--json"});
    folder.put("other.json", run_program(other).out);
    arguments.insert(arguments.end(), {"--html", folder / "a.html", "--beside", folder / "other.json"});
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json data = data_in(folder / "a.html");
    EXPECT_EQ(data.at("beside"), Json::array({Json::parse(contents(folder / "other.json"))}));
    EXPECT_EQ(data.at("explanations").back().at("kind"), data.at("beside").at(0).at("kind"));
    return data.at("beside").at(0);
  };
  EXPECT_EQ(beside({"explain"}, "--scale", "0.5").at("scale"), 0.5);
  const std::vector<std::string> text = {"explain", "--model", model / "", "--text", "a b a"};
  EXPECT_EQ(beside(text, "--without-head", "0.1").at("left_out").at("heads").size(), 1u);
  std::vector<std::string> head = text, token = text;
  head.insert(head.end(), {"--layer", "0", "--head", "1"});
  token.insert(token.end(), {"--token", "b"});
  EXPECT_EQ(beside(head, "--without-key", "b").at("kind"), "head");
  EXPECT_EQ(beside(token, "--without-head", "1.0").at("kind"), "token");
  EXPECT_EQ(beside({"explain", "--model", QKV_SOURCE_DIR "/models/digits", "--image",
                    QKV_SOURCE_DIR "/data/example/seven.png"},
                   "--token", "0,1")
                .at("token"),
            "0,1");
  EXPECT_EQ(data_in(folder / "a.html").at("explanations").size(), 1u);
}

TEST(ReportFile, RefusesWhatCannotStandBeside) {
  const TempFolder folder;
  const std::string steps = folder.put("steps.json", run_program({"explain", "--json"}).out),
                    text = folder.put("notes.json", "no JSON");
  std::string next = contents(steps);
  next.replace(next.find("explain/1"), 9, "explain/2");
  const std::string newer = folder.put("newer.json", next), html = folder / "a.html";
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& part) {
    arguments.insert(arguments.begin(), "explain");
    expect_message(run_program(arguments), code, "qkv explain", part);
  };
  refused({"--html", html, "--text", "Hi", "--beside", steps}, 3,
          steps + ": holds a run of the kind \"steps\", this one is of the kind \"heads\"");
  refused({"--html", html, "--beside", newer}, 3, newer + ": is of version 2, this qkv reads version 1");
  refused({"--html", html, "--beside", text}, 3, text + ": not valid JSON at line 1, column 2");
  refused({"--html", html, "--beside", folder / "none.json"}, 4, "none.json");
  refused({"--html", html, "--beside", folder / ""}, 4, "");
  refused({"--html", steps, "--beside", steps}, 2, "is also the file of --beside");
  refused({"--beside", steps}, 2, "--beside requires --html");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"newer.json", "notes.json", "steps.json"}));
}

// The limit of a file's size stands for a full disk.
TEST(ReportFile, WritesNothingHalf) {
  const TempFolder folder;
  folder.put("a.html", "older");
  const Outcome outcome = run_program({"explain", "--html", folder / "a.html"}, {.file_size = 50'000});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_EQ(contents(folder / "a.html"), "older");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.html"});
}

// The tiny model with places for 100 tokens.
struct LongBert : TinyBert {
  LongBert() {
    const std::string weights = *this / "model.safetensors", config = *this / "config.json";
    SafeTensors content = read_safetensors(weights);
    std::vector<float> positions(100 * 12);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<float>(i % 37) / 37;
    content.tensors.at("bert.embeddings.position_embeddings.weight") = Tensor::of<float>({100, 12}, positions);
    write_safetensors(weights, content);
    std::string text = contents(config);
    const std::string before = "\"max_position_embeddings\": 16";
    put("config.json", text.replace(text.find(before), before.size(), "\"max_position_embeddings\": 100"));
  }

  // Of so many tokens.
  Outcome explain(int tokens, const std::vector<std::string>& options) const {
    std::string text;
    for (int i = 0; i < tokens; ++i) text += i % 3 == 0 ? "b " : "a ";
    std::vector<std::string> arguments = {"explain", "--model", *this / "", "--text", text};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  }
};

const Json& head_in(const Json& heads, std::size_t at) { return heads.at("attentions").at(0).at("all").at(at); }

TEST(LongReport, HoldsMapsOfMoreThan64Tokens) {
  const LongBert model;
  const TempFolder folder;
  const std::string html = folder / "a.html";
  ASSERT_EQ(model.explain(64, {"--html", html, "--keep", "1.2"}).code, 0);
  const Json whole = data_in(html).at("explanations").at(0);
  EXPECT_EQ(head_in(whole, 5).at("weights").size(), 64u);
  EXPECT_FALSE(head_in(whole, 5).contains("map"));

  const Outcome plain = model.explain(65, {"--json"});
  const Outcome outcome = model.explain(65, {"--json", "--html", html});
  EXPECT_EQ(outcome.out, plain.out);  // a report does not change what is printed
  EXPECT_EQ(plain.out.find("\"map\""), std::string::npos);
  const Json maps = data_in(html).at("explanations").at(0);
  EXPECT_TRUE(head_in(maps, 0).at("weights").is_null());
  EXPECT_EQ(head_in(maps, 0).at("map").at("levels").at(0).at("rows"), 65);
  EXPECT_TRUE(head_in(maps, 0).at("map").at("top").is_null());
}

TEST(LongReport, KeepsWhatIsAskedFor) {
  const LongBert model;
  const TempFolder folder;
  const Outcome outcome =
      model.explain(80, {"--json", "--html", folder / "a.html", "--keep", "1.2,0.0", "--keep-rows", "0,79"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json printed = Json::parse(outcome.out), report = data_in(folder / "a.html").at("explanations").at(0);
  EXPECT_EQ(printed, report);
  const Json all = Json::parse(model.explain(80, {"--json", "--weights"}).out);
  for (const std::size_t at : {0u, 5u}) {
    const Json& map = head_in(printed, at).at("map");
    const auto row = numbers_in<float>(map.at("rows").at(1).at("weights"));
    for (std::size_t j = 0; j < 80; ++j) EXPECT_EQ(row.at(j), head_in(all, at).at("weights").at(79).at(j).get<float>());
    const auto keys = numbers_in<std::int32_t>(map.at("top").at("keys"));
    const std::vector<float> first = head_in(all, at).at("weights").at(0);
    EXPECT_EQ(keys.at(0), std::ranges::max_element(first) - first.begin());
  }
  EXPECT_TRUE(head_in(printed, 1).at("map").at("top").is_null());
}

TEST(LongReport, RefusesAndWritesNothing) {
  const LongBert model;
  const TempFolder folder;
  const std::string html = folder / "a.html";
  for (const auto& [options, code, line] : std::vector<std::tuple<std::vector<std::string>, int, std::string>>{
           {{"--keep", "0.0"}, 2, "--keep: needs --html or --json"},
           {{"--html", html, "--keep-rows", "1"}, 2, "--keep-rows requires --keep"},
           {{"--html", html, "--keep", "7"}, 2, "--keep: \"7\" must be a layer and a head, as 0.1"},
           {{"--html", html, "--keep", "2.0"},
            3,
            "there is no head 2.0 to keep; the layers are 0 to 1, the heads 0 to 2"},
           {{"--html", html, "--keep", "0.0", "--keep-rows", "70"}, 3, "there is no row 70 of head 0.0 to keep"},
           {{"--html", html, "--keep", "0.0,0.1,0.2,1.0,1.1"}, 3, "5 heads are more than the 4 that can be kept"},
           {{"--html", html, "--keep", "0.0", "--layer", "0", "--head", "0"}, 2, "cannot be combined with"},
           {{"--html", html, "--keep", "0.0", "--token", "0"}, 2, "cannot be combined with"}}) {
    expect_message(model.explain(70, options), code, "qkv explain", line);
    EXPECT_TRUE(folder.names().empty());
  }
  expect_message(run_program({"explain", "--keep", "0.0", "--json"}), 2, "qkv explain", "--keep: needs --text");
  expect_message(run_program({"translate", "--explain", "--keep", "encoder.0.0", "Hi"}), 2, "qkv translate",
                 "--keep: needs --html or --json");
  expect_message(run_program({"translate", "--explain", "--json", "--keep", "0.0", "Hi"}), 2, "qkv translate",
                 "--keep: \"0.0\" must begin with encoder., decoder. or encoder-decoder.");
  expect_message(run_program({"translate", "--keep", "encoder.0.0", "--json", "Hi"}), 2, "qkv translate",
                 "--keep requires --explain");
}

TEST(LongReport, TranslationsToo) {
  const Outcome outcome =
      run_program({"translate", "--explain", "--json", "--keep", "encoder-decoder.0.1", "Thank you"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json all = Json::parse(outcome.out).at("attentions");
  for (const Json& attention : all) EXPECT_TRUE(attention.at("all").at(0).at("weights").is_array());
}

class AttendReport : public Attend {};

TEST_F(AttendReport, HoldsEveryWeightOfShortInputs) {
  save_worked_example<float>();
  expect_success(attend({"--scale", "1", "--html", folder_ / "a.html"}));
  const Json maps = data_in(folder_ / "a.html").at("explanations").at(0);
  EXPECT_EQ(maps.at("kind"), "maps");
  EXPECT_EQ(maps.at("whole"), true);
  EXPECT_EQ(maps.at("heads").at(0).at("rows").size(), 3u);
  EXPECT_NE(contents(folder_ / "a.html").find("<td>0.98201</td>"), std::string::npos);
}

TEST_F(AttendReport, KeepsWhatIsAskedFor) {
  const std::vector<float> numbers(100, 1);
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) save<float>(name, {100, 1}, numbers);
  expect_success(attend({"--html", folder_ / "a.html", "--keep", "0.0", "--keep-rows", "5,99"}));
  const Json head = data_in(folder_ / "a.html").at("explanations").at(0).at("heads").at(0);
  EXPECT_EQ(head.at("top").at("count"), 32);
  EXPECT_EQ(head.at("rows").at(1).at("query"), 99);
}

TEST_F(AttendReport, RefusesAndWritesNothing) {
  save_worked_example<float>();
  const std::string html = folder_ / "a.html";
  for (const auto& [options, line] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--html", folder_ / "o.npy"}, "is also the file of --out"},
           {{"--html", folder_ / "q.npy"}, "is also the file of --query"},
           {{"--keep", "0.0"}, "--keep requires --html"},
           {{"--html", html, "--keep", "7"}, "--keep: \"7\" must be two numbers, BATCH.HEAD"},
           {{"--html", html, "--keep", "0.9"}, "there is no head 0.9 to keep"},
           {{"--html", html, "--keep", "0.0", "--keep-rows", "3"}, "there is no row 3 to keep"},
           {{"--html", html, "--block-weights", folder_ / "b.npy"}, "cannot be combined with"}}) {
    const Outcome outcome = attend(options);
    EXPECT_NE(outcome.code, 0);
    EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
    EXPECT_EQ(folder_.names(), (std::vector<std::string>{"k.npy", "q.npy", "v.npy"}));
  }
}

}  // namespace
}  // namespace qkv::test
