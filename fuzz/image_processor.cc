// Any bytes as a preprocessor_config.json: what is accepted is a processor that can be.
#include "qkv/models/image_processor.h"

#include "reader.h"

void read(std::string_view bytes) {
  qkv::ImageProcessor::load(qkv::fuzz::folder_with("preprocessor_config.json", bytes));
}
