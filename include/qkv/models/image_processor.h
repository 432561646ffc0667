/// \file
/// Prepares pictures for a Vision Transformer, as transformers' ViTImageProcessor and BitImageProcessor (DINOv2) do:
/// resize, crop, rescale, normalise.
///
///     ImageProcessor processor = ImageProcessor::load("models/dino");
///     Tensor x = processor.process(read_picture("cat.jpg"));  // f32 [224, 224, 3]
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "qkv/api.h"
#include "qkv/pictures.h"
#include "qkv/tensor.h"

namespace qkv {

/// Both widen with the step where a picture becomes smaller, so that every pixel counts.
enum class Resampling {
  bilinear,  ///< a triangle 1 wide on either side
  bicubic,   ///< Keys's cubic, a = -1/2, 2 wide
};

/// The steps in order; unset steps are skipped. Defaults as in ViTImageProcessor.
struct ImageProcessorConfig {
  struct Resize {
    PictureSize size{224, 224};
    std::int64_t shortest_edge = 0;  ///< if not 0, instead of `size`: height to width stay as they were
    Resampling resampling = Resampling::bilinear;
  };
  struct Normalize {
    std::array<float, 3> mean{0.5f, 0.5f, 0.5f};
    std::array<float, 3> deviation{0.5f, 0.5f, 0.5f};
  };

  std::optional<Resize> resize = Resize{};
  std::optional<PictureSize> center_crop{};  ///< zeros around a smaller picture
  std::optional<double> rescale_factor = 1 / 255.0;
  std::optional<Normalize> normalize = Normalize{};  ///< (x - mean) / deviation, by channel
};

/// Immutable after construction: any number of threads may call process.
class QKV_API ImageProcessor {
 public:
  /// Edges of 1 to 8000, factors and deviations of 2^-20 to 2^20, means up to 2^20;
  /// std::invalid_argument for others.
  explicit ImageProcessor(const ImageProcessorConfig& config);

  /// preprocessor_config.json of a ViTImageProcessor or BitImageProcessor, with the defaults of its class. FormatError,
  /// naming the key, for any other class, for keys that are unknown or ask for another step, and for resampling other
  /// than bilinear (2) and bicubic (3). A picture has three channels, in the order rows, columns, channels, regardless
  /// of do_convert_rgb and data_format.
  static ImageProcessorConfig read_config(const std::string& folder);
  /// Writes such a file, for a ViTImageProcessor.
  void save(const std::string& folder) const;
  static ImageProcessor load(const std::string& folder) { return ImageProcessor(read_config(folder)); }

  /// u8 [height, width, 3] to f32 [height, width, 3]. Resized pixels equal Image.resize of Pillow 13, and results equal
  /// transformers on Pillow, to the bit. std::invalid_argument for any other tensor, and if the picture becomes larger
  /// than those that pictures.h reads.
  Tensor process(const TensorView& picture, int threads = 0) const;

  const ImageProcessorConfig& config() const { return config_; }

 private:
  ImageProcessorConfig config_;
  std::array<std::array<float, 256>, 3> values_;  ///< rescaled and normalised, by channel
};

}  // namespace qkv
