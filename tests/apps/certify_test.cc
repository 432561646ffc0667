// qkv certify, and the fingerprints that other commands print.
#include "apps/program.h"
#include "qkv/files.h"
#include "qkv/target.h"

namespace qkv::test {
namespace {

// A target with fused multiply-add, and one without, of those that are built; empty: there is none.
std::string target_of_class(bool fused) {
  for (const Target& target : targets()) {
    if (target.usable && target.fused == fused) return target.name;
  }
  return "";
}

// Its digests are there, and why it ends with 5.
void expect_parted(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.code, 5);
  EXPECT_GT(lines_of(outcome.out).size(), 50u);
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("qkv certify: ") && holds(outcome.err, part)) << outcome.err;
}

const std::string kEmbedder = "@tests/golden/encoders/roberta";

TEST(CertifyCommand, HoldsWithFusedMultiplyAddAlone) {
  const std::string fused = target_of_class(true), other = target_of_class(false);
  if (!fused.empty()) {
    const Outcome found = run_program("QKV_TARGET=" + fused + " certify");
    EXPECT_EQ(found.code, 0) << found.err;
    EXPECT_TRUE(holds(found.out, fused + " computes with arithmetic 1\n")) << found.out;
    const Json json = Json::parse(run_program("QKV_TARGET=" + fused + " certify --json").out);
    EXPECT_TRUE(json.at("holds").get<bool>());
    for (const Json& each : json.at("cases")) EXPECT_EQ(each.at("digest"), each.at("expected"));
  }
  const Outcome parted = run_program("QKV_TARGET=" + other + " certify");
  expect_parted(parted, "no fused multiply-add");
  EXPECT_TRUE(holds(parted.out, ": differs; ")) << parted.out;
}

TEST(CertifyCommand, ComparesAModelWithACertificate) {
  const std::string fused = target_of_class(true);
  if (fused.empty()) GTEST_SKIP() << "no target with fused multiply-add";
  const auto run = [&](const std::string& options) {
    return run_program("QKV_TARGET=" + fused + " certify --model " + kEmbedder + options);
  };
  const std::string certificate = lines_of(run("").out).back();
  EXPECT_EQ(run(" --expect " + certificate).code, 0);
  expect_parted(run(" --weights int8 --expect " + certificate), "how weights are kept: int8 here");
  std::string other = certificate;
  other.back() = other.back() == '0' ? '1' : '0';
  expect_parted(run(" --expect " + other), "this machine differs");
  expect_message(run(" --expect abc"), 2, "qkv certify", "--expect");
  expect_message(run_program("certify --expect " + certificate), 2, "qkv certify", "--model");
}

TEST(CertifyCommand, EmbedAndInfoPrintTheFingerprint) {
  const std::string fingerprint = Json::parse(run_program("info --json --model " + kEmbedder).out).at("fingerprint");
  EXPECT_TRUE(holds(run_program("info --model " + kEmbedder).out, "fingerprint: " + fingerprint + "\n"));
  EXPECT_FALSE(holds(run_program("info").out, "fingerprint"));
  const Json embedding = Json::parse(run_program("embed --json --model " + kEmbedder, {.input = "a\n"}).out);
  EXPECT_EQ(embedding.at("fingerprint"), fingerprint);
}

// The texts are those of the model with these options.
TEST(CertifyCommand, WaysAreThoseOfTheModelAsItRuns) {
  std::vector<std::string> digests;
  for (const std::string options : {"", " --weights int8", " --precision reduced"}) {
    const std::string line = "certify --json --ways 2 --model @tests/golden/language/llama" + options;
    const Json ways = Json::parse(run_program(line).out).at("ways");
    EXPECT_GE(ways.size(), 12u);
    for (const Json& way : ways) EXPECT_EQ(way.at("digest"), ways[0].at("digest")) << way.at("name") << options;
    digests.push_back(ways[0].at("digest"));
  }
  std::ranges::sort(digests);
  EXPECT_EQ(std::ranges::unique(digests).begin(), digests.end());
}

std::string fingerprint_by_info(const Folder& folder, const std::string& options) {
  return folder.json("info --json --model " + options).at("fingerprint");
}

// Whoever runs a model prints the fingerprint that info prints with the same options.
TEST(Fingerprints, AreThoseOfTheModelAsItRuns) {
  const Folder folder;
  folder.put("in.html", "");
  const std::string bert = "@tests/golden/encoders/roberta", gpt2 = "@tests/golden/language/gpt2",
                    digits = "@models/digits --image @data/example/seven.png";
  for (const std::string options : {"", " --precision reduced", " --weights int8"}) {
    const Json line = Json::parse(folder.text("embed --json --model " + bert + options, {.input = "a b\n"}));
    EXPECT_EQ(line.at("fingerprint"), fingerprint_by_info(folder, bert + options)) << options;
  }
  std::vector<std::string> precisions{"exact", "reduced"};
  if (selected_target() == "avx512-bf16") precisions.push_back("reduced_pairs");
  for (const std::string& name : precisions) {
    const std::string precision = " --precision " + name;
    const std::pair<std::string, std::string> explained[] = {
        {bert, "explain --text 'a b' --model " + bert},
        {bert, "explain --text 'a b' --layer 0 --head 0 --model " + bert},
        {bert, "explain --text 'a b' --token 1 --model " + bert},
        {gpt2, "explain --text 'The cat' --model " + gpt2},
        {gpt2, "generate --explain --max-new-tokens 2 'The cat' --model " + gpt2},
        {"@models/en-es", "translate --explain Hi"},
        {"@models/digits", "explain --model " + digits},
        {"@models/digits", "explain --layer 0 --head 0 --model " + digits}};
    for (const auto& [model, line] : explained) {
      const std::string expected = fingerprint_by_info(folder, model + precision);
      EXPECT_EQ(folder.json(line + precision + " --json").at("fingerprint"), expected) << line << precision;
      EXPECT_TRUE(holds(expected, "-" + name + "-")) << expected;
    }
  }
  folder.text("explain --text Hi --html page.html");
  EXPECT_TRUE(holds(slurp(folder / "page.html"), fingerprint_by_info(folder, "@models/en-es")));
  EXPECT_FALSE(folder.json("explain --json").contains("fingerprint"));  // of no model
}

// Two classifiers with one encoder are two models, and an embedder does not take one for itself.
TEST(Fingerprints, OfAClassifierHaveItsHead) {
  const Folder folder;
  for (const std::string copy : {"one", "two", "bare"}) {
    std::filesystem::copy(QKV_SOURCE_DIR "/tests/golden/rank", folder / copy);
  }
  SafeTensors weights = read_safetensors(folder / "two/model.safetensors");
  weights.tensors.at("classifier.bias").data<float>()[0] += 1;
  write_safetensors(folder / "two/model.safetensors", weights);
  std::erase_if(weights.tensors, [](const auto& tensor) { return tensor.first.starts_with("classifier."); });
  write_safetensors(folder / "bare/model.safetensors", weights);
  Json config = Json::parse(slurp(folder / "bare/config.json"));
  config["architectures"] = Json::array({"BertModel"});
  folder.put("bare/config.json", config.dump());
  const auto certified = [&](const std::string& of) -> std::string {
    return folder.json("certify --json --model " + of).at("certificate");
  };
  const std::string one = certified("one"), two = certified("two"), bare = certified("bare");
  const auto results = [](const std::string& text) { return text.substr(text.find(':')); };
  const auto print = [](const std::string& text) { return text.substr(0, text.find(':')); };
  EXPECT_NE(print(one), print(two));
  EXPECT_NE(results(one), results(two));
  EXPECT_NE(print(one), print(bare));
  EXPECT_NE(results(one), results(bare));
  EXPECT_EQ(print(one), fingerprint_by_info(folder, "one"));
}

}  // namespace
}  // namespace qkv::test
