// --html of explain, translate and attend: every kind becomes a file, whole or not at all.
#include "apps/attend.h"
#include "apps/tiny_bert.h"
#include "explain/map_bytes.h"

namespace qkv::test {
namespace {

const std::string kTiny = "explain --model model --text 'a b a' ",
                  kSeven = "explain --model @models/digits --image @data/example/seven.png ";

Json data_in(const std::string& file) { return Json::parse(element(slurp(file), "data")); }

// The first explanation, as text.
std::string explained_in(const std::string& file) { return data_in(file).at("explanations").at(0).dump(); }

// That of the report that this command writes beside what it prints.
std::string explained(const Folder& folder, const std::string& line) {
  folder.put("a.html", "older");
  EXPECT_TRUE(folder.text(line + "--html a.html") == folder.text(line));
  EXPECT_TRUE(slurp(folder / "a.html").starts_with("<!doctype html>"));
  EXPECT_TRUE(data_in(folder / "a.html").at("command").get<std::string>().ends_with("--html a.html"));
  return explained_in(folder / "a.html");
}

TEST(ReportFile, HoldsEachKind) {
  const TinyBert model;
  expect_words(explained(model, "explain "), "/kind = \"steps\"");
  expect_words(explained(model, kTiny), "/kind = \"heads\" ... /attentions/0/all/0/weights # 3");
  expect_words(explained(model, kTiny + "--layer 0 --head 1 --token b "), "/token = 1");
  expect_words(explained(model, kSeven), "/pixels # 28");
  expect_words(model.text(kTiny + "--json --html a.html"), "/attentions/0/all/0/weights = null");
}

TEST(ReportFile, HasAnExplanationForEachSentence) {
  const Folder folder;
  folder.text("translate --explain --html a.html 'You are welcome' 'Thank you.' 'I\\'m home'");
  const Json data = data_in(folder / "a.html");
  expect_words(data.dump(), "/explanations # 3 ... /explanations/1/translation/source_text = \"Thank you.\"");
  EXPECT_EQ(data.at("command"), "qkv translate --explain --html a.html 'You are welcome' 'Thank you.' 'I'\\''m home'");
}

TEST(ReportFile, StandsBesideARunThatWasRecorded) {
  const TinyBert model;
  const auto beside = [&](const std::string& line, const std::string& change) {
    model.put("other.json", model.text(line + change + " --json"));
    model.text(line + "--html a.html --compare other.json");
    const Json data = data_in(model / "a.html"), other = Json::parse(slurp(model / "other.json"));
    EXPECT_EQ(data.at("beside"), Json::array({other}));
    EXPECT_EQ(data.at("explanations").back().at("kind"), other.at("kind"));
    return other;
  };
  EXPECT_EQ(beside("explain ", "--scale 0.5").at("scale"), 0.5);
  EXPECT_EQ(beside(kTiny, "--without-head 0.1").at("left_out").at("heads").size(), 1u);
  EXPECT_EQ(beside(kTiny + "--layer 0 --head 1 ", "--without-key b").at("kind"), "head");
  EXPECT_EQ(beside(kTiny + "--token b ", "--without-head 1.0").at("kind"), "token");
  EXPECT_EQ(beside(kSeven, "--token 0,1").at("token"), "0,1");
  EXPECT_EQ(data_in(model / "a.html").at("explanations").size(), 1u);
}

// The limit of a file's size stands for a full disk.
TEST(ReportFile, WritesNothingHalf) {
  const Folder folder;
  folder.put("a.html", "older");
  EXPECT_EQ(folder.run("explain --html a.html", {.file_size = 50'000}).code, 4);
  EXPECT_EQ(slurp(folder / "a.html"), "older");
  EXPECT_EQ(folder.names(), Words{"a.html"});
}

// The tiny model with places for 100 tokens.
struct LongBert : TinyBert {
  LongBert() {
    SafeTensors content = read_safetensors(*this / "model/model.safetensors");
    std::vector<float> positions(100 * 12);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<float>(i % 37) / 37;
    content.tensors.at("bert.embeddings.position_embeddings.weight") = Tensor::of<float>({100, 12}, positions);
    write_safetensors(*this / "model/model.safetensors", content);
    Json config = Json::parse(slurp(*this / "model/config.json"));
    config["max_position_embeddings"] = 100;
    put("model/config.json", config.dump());
  }

  // Of so many tokens.
  std::string explain(int tokens, const std::string& options) const {
    std::string line;
    for (int i = 0; i < tokens; ++i) line += i % 3 == 0 ? "b " : "a ";
    return text("explain --model model --json " + options + " --text '" + line + "'");
  }
};

TEST(LongReport, HoldsMapsOfMoreThan64Tokens) {
  const LongBert model;
  model.explain(64, "--html a.html --keep 1.2");
  const std::string whole = explained_in(model / "a.html"), plain = model.explain(65, "");
  expect_words(whole, "/attentions/0/all/5/weights # 64");
  EXPECT_TRUE(model.explain(65, "--html a.html") == plain);  // a report does not change what is printed
  for (const std::string& text : {whole, plain}) EXPECT_FALSE(holds(text, "\"map\""));
  expect_words(explained_in(model / "a.html"),
               "/attentions/0/all/0/weights = null ... /attentions/0/all/0/map/top = null "
               "... /attentions/0/all/0/map/levels/0/rows = 65");
}

const Json& head_in(const Json& heads, std::size_t at) { return heads.at("attentions").at(0).at("all").at(at); }

TEST(LongReport, KeepsWhatIsAskedFor) {
  const LongBert model;
  const Json printed = Json::parse(model.explain(80, "--html a.html --keep 1.2,0.0 --keep-rows 0,79"));
  EXPECT_EQ(printed, Json::parse(explained_in(model / "a.html")));
  const Json all = Json::parse(model.explain(80, "--weights"));
  for (const std::size_t at : {0u, 5u}) {
    const Json &map = head_in(printed, at).at("map"), &weights = head_in(all, at).at("weights");
    EXPECT_EQ(numbers_in<float>(map.at("rows").at(1).at("weights")), weights.at(79).get<std::vector<float>>());
    const std::vector<float> first = weights.at(0);
    EXPECT_EQ(numbers_in<std::int32_t>(map.at("top").at("keys")).at(0),
              std::ranges::max_element(first) - first.begin());
  }
  EXPECT_TRUE(head_in(printed, 1).at("map").at("top").is_null());
  const Json translated = model.json("translate --explain --json --keep encoder-decoder.0.1 'Thank you'");
  for (const Json& attention : translated.at("attentions")) {
    EXPECT_TRUE(attention.at("all").at(0).at("weights").is_array());
  }
}

TEST_F(Attend, ReportHoldsEveryWeightOfShortInputsAndWhatIsToBeKept) {
  save(worked_example());
  expect("--scale 1 --html a.html", "");
  expect_words(explained_in(folder_ / "a.html"), "/kind = \"maps\" ... /whole = true ... /heads/0/rows # 3");
  expect_words(slurp(folder_ / "a.html"), "<td>0.98201</td>");
  save("q 1{100,1} k 1{100,1} v 1{100,1}");
  expect("--html a.html --keep 0.0 --keep-rows 5,99", "");
  expect_words(explained_in(folder_ / "a.html"), "/heads/0/top/count = 32 ... /heads/0/rows/1/query = 99");
}

}  // namespace
}  // namespace qkv::test
