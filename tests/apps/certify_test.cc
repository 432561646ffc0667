// qkv certify, and the fingerprints that other commands print.
#include "apps/program.h"
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
  EXPECT_TRUE(holds(parted.out, ": parts; ")) << parted.out;
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
  expect_parted(run(" --expect " + other), "this machine parts");
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

}  // namespace
}  // namespace qkv::test
