// A build without pictures refuses them, in one line.
#include "io/pictures_for_test.h"
#include "qkv/pictures.h"

namespace qkv {
namespace {

TEST(NoPictures, AreRefused) {
  for (const char* name : {"rgb8.png", "rgb_444.jpg"}) {
    const std::string path = test::golden_picture(name);
    EXPECT_EQ(test::message_of<FormatError>([&] { read_picture(path); }),
              path + ": a picture, which this build does not read; configure it with QKV_PICTURES=ON");
  }
}

}  // namespace
}  // namespace qkv
