// Reads folders of pictures and CSV files of pixels, and gives batches of them.
#include "train/data/labelled_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "core/share.h"
#include "core/stop.h"
#include "io/files/byte_source.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/pictures.h"

namespace qkv::training {
namespace {

namespace fs = std::filesystem;

// The entries of a folder, by name, without those that begin with a dot.
std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with('.')) entries.push_back(at->path());
  }
  if (error) throw IoError(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()), error.value());
  std::ranges::sort(entries);
  return entries;
}

PictureFiles read_folders(const std::string& path, const ImageProcessor& processor) {
  PictureFiles files;
  std::vector<fs::path> all;
  for (const fs::path& entry : sorted_entries(path)) {
    if (!fs::is_directory(entry)) {
      throw FormatError(
          fmt::format("{}: is not a folder; {} must have one folder of pictures for each class", entry.string(), path));
    }
    const std::vector<fs::path> pictures = sorted_entries(entry);
    if (pictures.empty()) throw FormatError(fmt::format("{}: has no pictures of its class", entry.string()));
    all.insert(all.end(), pictures.begin(), pictures.end());
    files.classes.resize(all.size(), static_cast<std::int32_t>(files.labels.size()));
    files.labels.push_back(entry.filename().string());
  }
  if (files.labels.empty()) {
    throw FormatError(fmt::format("{}: is empty; it must have one folder of pictures for each class", path));
  }
  ShareTurns turns(std::ssize(all));
  for (const fs::path& picture : all) {
    check_stop();
    files.pictures.push_back(processor.process(read_picture(picture.string())));
    turns.next();
  }
  return files;
}

PictureFiles read_rows(const std::string& path, std::int64_t largest, const ImageProcessor& processor) {
  const Tensor table = read_csv(path);
  const std::int64_t rows = table.size(0), pixels = table.size(1) - 1;
  const auto side =
      static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<std::int64_t>(pixels, 0)))));
  if (rows == 0) throw FormatError(fmt::format("{}: has no pictures", path));
  if (pixels < 1 || side * side != pixels) {
    throw FormatError(
        fmt::format("{}: a row must be a class and the pixels of a square picture, has {} numbers", path, pixels + 1));
  }
  PictureFiles files;
  std::set<std::int64_t> numbers;
  std::vector<std::int64_t> of_rows;
  ShareTurns turns(rows);
  for (std::int64_t i = 0; i < rows; ++i, turns.next()) {
    check_stop();
    const double* row = table.data<double>() + i * (pixels + 1);
    const auto refuse_row = [&](const std::string& rule) {
      throw FormatError(fmt::format("{}: row {} (from 1): {}", path, i + 1, rule));
    };
    if (!(row[0] >= 0 && row[0] <= 1e6 && row[0] == std::floor(row[0]))) {
      refuse_row(fmt::format("the class is {}; it must be a whole number from 0 to 1000000", row[0]));
    }
    for (std::int64_t p = 1; p <= pixels; ++p) {
      if (row[p] >= 0 && row[p] <= static_cast<double>(largest)) continue;
      refuse_row(fmt::format("pixel {} is {}; it must be 0 to {}, the largest", p, row[p], largest));
    }
    of_rows.push_back(static_cast<std::int64_t>(row[0]));
    numbers.insert(of_rows.back());
    files.pictures.push_back(processor.process(gray_picture(row + 1, {side, side}, largest)));
  }
  for (const std::int64_t number : numbers) files.labels.push_back(std::to_string(number));
  for (const std::int64_t number : of_rows) {
    files.classes.push_back(static_cast<std::int32_t>(std::distance(numbers.begin(), numbers.find(number))));
  }
  return files;
}

}  // namespace

Tensor gray_picture(const double* pixels, const PictureSize& size, std::int64_t largest) {
  Tensor picture = Tensor::uninitialized({size.height, size.width, 3}, Dtype::u8);
  for (std::int64_t i = 0; i < size.height * size.width; ++i) {
    const auto level = static_cast<std::uint8_t>(std::lround(pixels[i] * 255 / static_cast<double>(largest)));
    std::fill_n(picture.data<std::uint8_t>() + 3 * i, 3, level);
  }
  return picture;
}

PictureFiles read_labelled_pictures(const std::string& path, std::int64_t largest, const ImageProcessor& processor) {
  return fs::is_directory(path) ? read_folders(path, processor) : read_rows(path, largest, processor);
}

PictureFiles with_labels(PictureFiles files, const std::vector<std::string>& labels, const std::string& path) {
  std::vector<std::int32_t> numbers;
  for (const std::string& label : files.labels) {
    const auto found = std::ranges::find(labels, label);
    if (found == labels.end()) {
      throw FormatError(fmt::format("{}: class \"{}\" is not in the training data", path, label));
    }
    numbers.push_back(static_cast<std::int32_t>(found - labels.begin()));
  }
  for (std::int32_t& own : files.classes) own = numbers[static_cast<std::size_t>(own)];
  files.labels = labels;
  return files;
}

PictureExamples::PictureExamples(const PictureFiles& files, std::int64_t shift, std::vector<float> black)
    : files_(files), shift_(shift), side_(2 * shift + 1), black_(std::move(black)) {}

std::uint32_t PictureExamples::checksum() const {
  std::uint32_t sum = io::crc32({reinterpret_cast<const char*>(&shift_), sizeof shift_});
  for (std::size_t i = 0; i < files_.pictures.size(); ++i) {
    const Tensor& picture = files_.pictures[i];
    sum = io::crc32({reinterpret_cast<const char*>(&files_.classes[i]), sizeof files_.classes[i]}, sum);
    sum = io::crc32({reinterpret_cast<const char*>(picture.data<float>()),
                     static_cast<std::size_t>(picture.element_count()) * sizeof(float)},
                    sum);
  }
  return sum;
}

LabelledPictures PictureExamples::collect(std::span<const std::uint32_t> chosen) const {
  const std::int64_t height = files_.pictures.front().size(0), width = files_.pictures.front().size(1);
  LabelledPictures batch{Tensor::uninitialized({std::ssize(chosen), height, width, 3}), {}};
  float* to = batch.pictures.data<float>();
  for (const std::uint32_t number : chosen) {
    const std::size_t picture = number / static_cast<std::uint32_t>(side_ * side_);
    const std::int64_t variant = number % (side_ * side_);
    const std::int64_t down = variant / side_ - shift_, right = variant % side_ - shift_;
    const float* from = files_.pictures[picture].data<float>();
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x, to += 3) {
        const std::int64_t old_y = y - down, old_x = x - right;
        const bool inside = old_y >= 0 && old_y < height && old_x >= 0 && old_x < width;
        std::copy_n(inside ? from + (old_y * width + old_x) * 3 : black_.data(), 3, to);
      }
    }
    batch.labels.push_back(files_.classes[picture]);
  }
  return batch;
}

}  // namespace qkv::training
