// Declares the optional outputs of a forward pass, and makes room for those that were asked for.
#include "commands/attend_outputs.h"

#include <fmt/format.h>

#include <algorithm>

namespace qkv::app {
namespace {

std::string option_of(const OutputDescription& kind) { return "--" + output_word(kind); }

const char* form_of(OutputOf of) {
  switch (of) {
    case OutputOf::rows:
      return "[..., heads, q_len]";
    case OutputOf::keys:
      return "[..., heads, k_len]";
    case OutputOf::pairs:
      return "[..., heads, q_len, k_len]";
    case OutputOf::top:
      return "[..., heads, q_len, n]";
    case OutputOf::blocks:
      return "[..., heads, n, n]";
    case OutputOf::chosen:
      break;
  }
  return "[n, k_len]";
}

Rules rules_of(const OutputDescription& kind) {
  if (kind.of == OutputOf::chosen) return needs("--rows");
  if (kind.of != OutputOf::top) return {};
  return needs(kind.view == &AttentionExtras::top_keys ? "--top-weights" : "--top-keys");
}

}  // namespace

Dims output_shape(OutputOf of, const RowShapes& shapes, std::int64_t rows, std::int64_t top, std::int64_t blocks) {
  switch (of) {
    case OutputOf::rows:
      return shapes.rows;
    case OutputOf::keys:
      return shapes.received;
    case OutputOf::pairs:
      return shapes.with(shapes.length);
    case OutputOf::top:
      return shapes.with(top);
    case OutputOf::chosen:
      return {rows, shapes.length};
    case OutputOf::blocks:
      break;
  }
  Dims shape = shapes.blocks;
  for (int i = 0; i < 2; ++i) shape.push_back(blocks);
  return shape;
}

std::string output_word(const OutputDescription& kind) {
  std::string word = kind.name;
  std::ranges::replace(word, '_', '-');
  return word;
}

AttendOutputs::AttendOutputs(Command& command, ArrayFiles& files)
    : outputs_([&files] {
        std::vector<const ArrayOption*> options;
        for (const OutputDescription& kind : attention_outputs()) {
          const char* type = kind.is_index ? "i64 " : "";
          const std::string help = fmt::format("output: {}, {}{}", kind.help, type, form_of(kind.of));
          options.push_back(&files.output(option_of(kind), help, rules_of(kind)));
        }
        return options;
      }()),
      rows_(files.input("--rows", "i64 [n, 3]: batch, head and query of chosen rows; packed: the query in its sequence",
                        needs("--row-weights"))) {
  command.add({{"--top", size(top_, 1024), "number of keys per query (default 8)", needs("--top-keys")},
               {"--blocks", size(blocks_, 4096), "number of blocks along queries and along keys (default 64)",
                needs("--block-weights")}});
}

void AttendOutputs::read() { rows_.read(); }

AttentionExtras AttendOutputs::allocate(ArrayFiles& files, const RowShapes& shapes) const {
  AttentionExtras extras;
  extras.rows = rows_.view();
  const std::int64_t rows = extras.rows.rank() > 0 ? extras.rows.size(0) : 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputDescription& kind = attention_outputs()[i];
    const Dtype dtype = kind.is_index ? Dtype::i64 : shapes.dtype;
    extras.*kind.view = files.allocate(*outputs_[i], output_shape(kind.of, shapes, rows, top_, blocks_), dtype);
  }
  return extras;
}

}  // namespace qkv::app
