// qkv web: the page holds the engine, a model's files and what is shown first.
#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

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
  const Folder folder;
  EXPECT_EQ(folder.text("web --out page.html"), "");
  EXPECT_EQ(folder.names(), Words{"page.html"});
  const std::string html = slurp(folder / "page.html");
  EXPECT_EQ(from_base85(element(html, "engine")), slurp(QKV_SOURCE_DIR "/web/engine/engine.wasm.zst"));
  EXPECT_EQ(element(html, "model"), "");
  EXPECT_EQ(Json::parse(element(html, "data")).at("explanations").at(0).at("kind"), "steps");
  // The engine knows all kinds of models and tokenizers, decoders that go on with a text among them. 1,680,000 until
  // register tiles for few rows of q8 and q4, and loops of two steps, took 13 kB, and a virtual walk over the
  // parameters, which keeps the layers' updates in it, another 6 kB.
  EXPECT_LE(html.size(), 1'702'000u);
}

TEST(WebPage, OfALanguageModelShowsWhatItWrites) {
  const Folder folder;
  folder.text("web --out page.html --model " QKV_SOURCE_DIR "/models/verses");
  const std::string html = slurp(folder / "page.html");
  const Json shown = Json::parse(element(html, "data")).at("explanations").at(1).at("continuation");
  EXPECT_EQ(shown.at("source_text"), "In the beginning");
  EXPECT_EQ(shown.at("target_words").size(), 24u);
  EXPECT_LE(html.size(), 8'000'000u);
}

TEST(WebPage, HoldsEveryFileOfAModelThatFits) {
  const TinyBert model;
  model.text("web --out page.html --model model");
  const std::string html = slurp(model / "page.html");
  const Json files = Json::parse(element(html, "model"));
  for (const std::string name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const std::string bytes = slurp(model / "model/" + name);
    EXPECT_FALSE(bytes.empty());
    EXPECT_EQ(from_base85(files.at("/model/" + name)), bytes) << name;
  }
  EXPECT_EQ(Json::parse(element(html, "data")).at("explanations").at(1).at("kind"), "heads");
  model.put("model/more.json", "[" + std::string(16'000'000, ' ') + "]");
  expect_answers(model, "web ", {{"--out large.html --model model", 3, "a page, which holds at most 20.0 MB"}});
}

}  // namespace
}  // namespace qkv::test
