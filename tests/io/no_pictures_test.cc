// A build without pictures refuses them, in one line.
#include "io/pictures_for_test.h"
#include "qkv/pictures.h"

namespace qkv::test {
namespace {

TEST(NoPictures, AreRefused) {
  for (const char* name : {"rgb8.png", "rgb_444.jpg"}) {
    const std::string path = golden_picture(name);
    EXPECT_EQ(message_of<FormatError>([&] { read_picture(path); }),
              path + ": this build has no PNG/JPEG support; rebuild with -DQKV_PICTURES=ON");
  }
}

}  // namespace
}  // namespace qkv::test
