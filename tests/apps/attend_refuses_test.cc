// qkv attend: what it refuses, with which exit code and words, and that it then writes nothing.
#include <filesystem>
#include <fstream>

#include "apps/attend.h"

namespace qkv::test {
namespace {

// What is refused leaves the folder as it was.
class AttendRefuses : public Attend {
 protected:
  void SetUp() override {
    save_worked_example<float>();
    save<float>("b.npy", {3, 3}, std::vector<float>(9, 0));
    before_ = folder_.names();
  }
  void expect_refusal(const std::vector<std::string>& options, int code, const std::string& part) {
    expect_message(attend(options), code, "qkv attend", part);
    EXPECT_EQ(folder_.names(), before_);
  }
  void replace(const char* name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::vector<std::string> before_;
};

TEST_F(AttendRefuses, OptionsThatCannotBe) {
  for (const char* number : {"nan", "inf", "-inf", "1e400", "x", "", "1,5"}) {
    expect_refusal({"--scale", number}, 2, "--scale");
    expect_refusal({"--soft-cap", number}, 2, "--soft-cap");
  }
  expect_refusal({"--soft-cap", "-1"}, 2, "--soft-cap");
  for (const char* window :
       {"", "1", ",", "1,", ",1", "1,2,3", "-2,0", "0,-2", "a,b", "1.5,2", "99999999999999999999,0"}) {
    expect_refusal({"--window", window}, 2, "LEFT,RIGHT");
  }
  expect_refusal({"--causal", "middle"}, 2, "top-left|bottom-right");
  expect_refusal({"--score", "cosine"}, 2, "bilinear");
  expect_refusal({"--dtype", "i8"}, 2, "bf16");
  expect_refusal({"--mask", ""}, 2, "--mask");
  expect_refusal({"--mask", "--bias"}, 2, "--mask");
  expect_refusal({"--threads", "0"}, 2, "1 to 1024");
}

TEST_F(AttendRefuses, OutputsThatWouldLoseData) {
  const std::string query = folder_ / "q.npy";
  const std::string bytes = contents(query);
  expect_refusal({"--weights", query}, 2, "--query");
  expect_refusal({"--weights", folder_ / "./q.npy"}, 2, "--query");
  expect_refusal({"--weights", folder_ / "o.npy"}, 2, "--out");
  expect_refusal({"--bias", folder_ / "b.npy", "--logits", folder_ / "b.npy"}, 2, "--bias");
  expect_refusal({"--weights", folder_ / "w.txt"}, 2, ".npy");
  EXPECT_EQ(contents(query), bytes);
}

TEST_F(AttendRefuses, PlacesThatCannotBeWritten) {
  expect_refusal({"--weights", folder_ / "nowhere/w.npy"}, 4, "nowhere");
  expect_refusal({"--weights", (folder_ / "q.npy") + "/w.npy"}, 4, "q.npy");
  std::filesystem::create_directory(folder_ / "folder.npy");
  before_ = folder_.names();
  expect_refusal({"--weights", folder_ / "folder.npy"}, 4, "folder.npy");
}

TEST_F(AttendRefuses, FilesThatCannotBeRead) {
  expect_refusal({"--mask", folder_ / "missing.npy"}, 4, "missing.npy");
  expect_refusal({"--mask", folder_ / ""}, 3, "");
  std::filesystem::create_directory(folder_ / "folder.npy");
  before_ = folder_.names();
  expect_refusal({"--mask", folder_ / "folder.npy"}, 4, "folder.npy");
  std::filesystem::permissions(folder_ / "b.npy", std::filesystem::perms::none);
  expect_message(attend({"--bias", folder_ / "b.npy"}, {.heeds_permissions = true}), 4, "qkv attend",
                 "b.npy: cannot read: Permission denied");
  EXPECT_EQ(folder_.names(), before_);
}

TEST_F(AttendRefuses, FilesThatAreMalformed) {
  const std::string whole = contents(folder_ / "q.npy");
  for (const std::string& bytes :
       {std::string(), std::string("hello"), whole.substr(0, 60), whole.substr(0, whole.size() - 1), whole + "x"}) {
    replace("q.npy", bytes);
    expect_refusal({}, 3, "q.npy");
  }
}

TEST_F(AttendRefuses, ArraysThatDoNotFit) {
  const auto refuse_key = [&](const Dims& shape, const std::string& part) {
    write_npy(folder_ / "k.npy", Tensor::zeros(shape));
    expect_refusal({}, 3, part);
  };
  refuse_key({3, 4}, "head_dim 4");               // another head_dim
  refuse_key({5, 3}, "value must be [1, 5, 3]");  // more keys than values
  refuse_key({2, 3, 3}, "[2, 3, 3]");
  refuse_key({3}, "[3]");
  refuse_key({}, "[]");
  write_npy(folder_ / "k.npy", Tensor::zeros({3, 3}, Dtype::f64));
  expect_refusal({}, 3, "holds f64");
}

TEST_F(AttendRefuses, MasksAndLengthsThatDoNotFit) {
  expect_refusal({"--mask", folder_ / "b.npy"}, 3, "f32");  // a bias for a mask
  write_npy(folder_ / "b.npy", Tensor::zeros({3, 4}, Dtype::u8));
  expect_refusal({"--mask", folder_ / "b.npy"}, 3, "[3, 4]");
  write_npy(folder_ / "b.npy", Tensor::zeros({2, 3, 3, 3, 3}));
  expect_refusal({"--bias", folder_ / "b.npy"}, 3, "[2, 3, 3, 3, 3]");
  write_npy(folder_ / "b.npy", Tensor::zeros({2}, Dtype::i32));
  expect_refusal({"--lengths", folder_ / "b.npy"}, 3, "lengths");
  save<std::int32_t>("b.npy", {1}, {4});
  expect_refusal({"--lengths", folder_ / "b.npy"}, 3, "lengths");
  write_npy(folder_ / "b.npy", Tensor::zeros({1}));
  expect_refusal({"--lengths", folder_ / "b.npy"}, 3, "lengths");
  write_npy(folder_ / "b.npy", Tensor::zeros({5}));
  expect_refusal({"--alibi", folder_ / "b.npy"}, 3, "slopes");
}

}  // namespace
}  // namespace qkv::test
