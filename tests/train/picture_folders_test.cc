// Folders of PNG and JPEG files, one for each class, as data to train on.
#include "core/share.h"
#include "io/files_for_test.h"
#include "train/data/labelled_pictures.h"

namespace qkv {
namespace {

TEST(PictureFolders, AreReadClassByClass) {
  namespace fs = std::filesystem;
  const std::string pictures = QKV_TEST_DATA "/golden/pictures/";
  const test::TemporaryFolder folder;
  for (const char* name : {"cat", "ant", ".hidden"}) fs::create_directories(folder / name);
  fs::copy_file(pictures + "rgb8.png", folder / "cat/2.png");
  fs::copy_file(pictures + "rgb_444.jpg", folder / "cat/1.png");  // told by its content
  fs::copy_file(pictures + "gray8.png", folder / "ant/x");
  folder.put("ant/.DS_Store", "no picture");
  const ImageProcessor processor({.resize = ImageProcessorConfig::Resize{.size = {4, 5}}});
  std::vector<double> told;
  const ShareScope scope([&](double share) { told.push_back(share); });
  const training::PictureFiles read = training::read_labelled_pictures(folder / "", 255, processor);
  EXPECT_EQ(read.labels, (std::vector<std::string>{"ant", "cat"}));
  EXPECT_EQ(read.classes, (std::vector<std::int32_t>{0, 1, 1}));
  EXPECT_EQ(told, (std::vector<double>{1. / 3, 2. / 3, 1}));
  for (const Tensor& picture : read.pictures) EXPECT_EQ(picture.shape(), (Dims{4, 5, 3}));
}

}  // namespace
}  // namespace qkv
