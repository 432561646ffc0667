// qkv web: the page holds the engine, a model's files and what is shown first; bad input leaves nothing behind.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

using Json = nlohmann::json;

// The text of the element of this name.
std::string element(const std::string& html, const std::string& id) {
  const std::string begin = "id=\"" + id + "\">";
  const std::size_t from = html.find(begin);
  if (from == std::string::npos) return "";
  return html.substr(from + begin.size(), html.find("</script>", from) - from - begin.size());
}

// Five letters are a number below 2^32 by powers of 85; a last group with letters missing is filled up with the
// largest.
std::string from_base85(std::string text) {
  const std::string digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&,>()[]{}@%$#";
  const std::size_t missing = (5 - text.size() % 5) % 5;
  text += std::string(missing, '#');
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 5) {
    std::uint64_t four = 0;
    for (std::size_t k = 0; k < 5; ++k) four = 85 * four + digits.find(text[i + k]);
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(four >> shift & 255);
  }
  bytes.resize(bytes.size() - missing);
  return bytes;
}

TEST(WebPage, HoldsTheEngineAndTheWorkedExample) {
  const TempFolder folder;
  const Outcome outcome = run_program({"web", "--out", folder / "page.html"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out + outcome.err, "");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"page.html"});
  const std::string html = contents(folder / "page.html");
  EXPECT_EQ(from_base85(element(html, "engine")), contents(QKV_SOURCE_DIR "/web/engine/engine.wasm.zst"));
  EXPECT_EQ(element(html, "model"), "");
  EXPECT_EQ(Json::parse(element(html, "data")).at("explanations").at(0).at("kind"), "steps");
  EXPECT_LE(html.size(), 1'500'000u);
}

TEST(WebPage, HoldsEveryFileOfAModel) {
  const TempFolder folder;
  const TinyBert model;
  const Outcome outcome = run_program({"web", "--out", folder / "page.html", "--model", model / ""});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string html = contents(folder / "page.html");
  const Json files = Json::parse(element(html, "model"));
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const std::string bytes = contents(model / name);
    EXPECT_FALSE(bytes.empty());
    EXPECT_EQ(from_base85(files.at(std::string("/model/") + name)), bytes) << name;
  }
  EXPECT_EQ(Json::parse(element(html, "data")).at("explanations").at(1).at("kind"), "heads");
}

TEST(WebPage, RefusesWhatIsNoModelOrTooLarge) {
  const TempFolder folder;
  EXPECT_EQ(run_program({"web"}).code, 2);
  EXPECT_EQ(run_program({"web", "--out", folder / "page.html", "--model", folder / "nowhere"}).code, 4);
  EXPECT_EQ(run_program({"web", "--out", folder / "none" + std::string("/page.html")}).code, 4);
  const TinyBert model;
  const std::string own = model / "config.json", before = contents(own);
  EXPECT_EQ(run_program({"web", "--out", own, "--model", model / ""}).code, 2);
  EXPECT_EQ(contents(own), before);

  std::filesystem::copy(model / "", folder / "large");
  folder.put("large/more.json", "[" + std::string(16'000'000, ' ') + "]");
  const Outcome large = run_program({"web", "--out", folder / "page.html", "--model", folder / "large"});
  EXPECT_EQ(large.code, 3);
  EXPECT_NE(large.err.find("a page, which holds at most 20.0 MB"), std::string::npos) << large.err;
  EXPECT_EQ(folder.names(), std::vector<std::string>{"large"});
}

}  // namespace
}  // namespace qkv::test
