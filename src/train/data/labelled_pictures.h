// Pictures with a class each: read from files, and as examples to train on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/models/image_processor.h"
#include "qkv/models/vit.h"
#include "qkv/train/examples.h"

namespace qkv::training {

struct PictureFiles {
  std::vector<std::string> labels;    // of the classes, in order: names of folders, or numbers
  std::vector<std::int32_t> classes;  // of each picture
  std::vector<Tensor> pictures;       // f32 [height, width, 3], processed
};

// A folder that has a folder for each class, or a CSV file whose rows are the number of a class and the gray pixels of
// a square picture, 0 to `largest`. FormatError, naming the file, for a folder without classes, a class without
// pictures, a file that is no picture, and rows that break a rule.
PictureFiles read_labelled_pictures(const std::string& path, std::int64_t largest, const ImageProcessor& processor);

// The same with the classes of `labels` in its order. FormatError for a class that is not one of them.
PictureFiles with_labels(PictureFiles files, const std::vector<std::string>& labels, const std::string& path);

// A picture of gray pixels, 0 to `largest`, as u8 [height, width, 3].
Tensor gray_picture(const double* pixels, const PictureSize& size, std::int64_t largest);

// Each picture in every shift by up to `shift` pixels down and to the right, up and to the left; `black` is a processed
// black pixel.
class PictureExamples : public Examples<LabelledPictures> {
 public:
  PictureExamples(const PictureFiles& files, std::int64_t shift, std::vector<float> black);

  std::string kind() const override { return "pictures"; }
  std::int64_t count() const override { return std::ssize(files_.pictures) * side_ * side_; }
  ExampleSize size(std::int64_t) const override { return {.cost = 1, .length = 1}; }
  std::uint32_t checksum() const override;
  LabelledPictures collect(std::span<const std::uint32_t> chosen) const override;

 private:
  const PictureFiles& files_;
  std::int64_t shift_, side_;
  std::vector<float> black_;
};

}  // namespace qkv::training
