// The optional outputs of a forward pass on the command line of `attend`.
#pragma once

#include "attention/call/output_kinds.h"
#include "inputs/array_files.h"
#include "qkv/attention.h"

namespace qkv::app {

// What the shapes of optional outputs follow from.
struct RowShapes {
  Dims rows{};              // of log-sum-exp: the query's without its last dimension
  Dims received{};          // of the weight that keys receive
  Dims blocks{};            // of block averages, before the numbers of blocks
  std::int64_t length = 0;  // of a row of weights
  Dtype dtype = Dtype::f32;

  Dims with(std::int64_t last) const {
    Dims shape = rows;
    shape.push_back(last);
    return shape;
  }
};

// Its name on a command line: "log-sum-exp".
std::string output_word(const OutputDescription& kind);
// With so many chosen rows, keys of a row's largest weights, and blocks along queries and keys.
Dims output_shape(OutputOf of, const RowShapes& shapes, std::int64_t rows, std::int64_t top, std::int64_t blocks);

inline constexpr std::int64_t kUsualTop = 8, kUsualBlocks = 64;

class AttendOutputs {
 public:
  AttendOutputs(Command& command, ArrayFiles& files);

  void read();
  // Borrows what was read; the views are those of `files`.
  AttentionExtras allocate(ArrayFiles& files, const RowShapes& shapes) const;

 private:
  std::vector<const ArrayOption*> outputs_{};
  InputArray& rows_;
  std::int64_t top_ = kUsualTop, blocks_ = kUsualBlocks;
};

}  // namespace qkv::app
