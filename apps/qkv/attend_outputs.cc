// Declares the optional outputs of a forward pass, and makes room for those that were asked for.
#include "attend_outputs.h"

namespace qkv::app {
namespace {

struct Output {
  const char* option;
  const char* help;
  MutableTensorView AttentionExtras::* view;
  Dims RowShapes::* shape;
  Rules rules{};
};

const std::vector<Output>& outputs() {
  using Extras = AttentionExtras;
  using Shapes = RowShapes;
  static const std::vector<Output> list = {
      {"--weights", "the weights to write, [..., heads, q_len, k_len]", &Extras::weights, &Shapes::pairs},
      {"--logits", "the logits to write, -inf where masked, [..., heads, q_len, k_len]", &Extras::logits,
       &Shapes::pairs},
      {"--log-sum-exp", "the log-sum-exp to write, [..., heads, q_len]", &Extras::log_sum_exp, &Shapes::rows},
      {"--row-maximum", "each row's largest logit to write, [..., heads, q_len]", &Extras::row_maximum, &Shapes::rows},
      {"--entropy", "the entropy of each row of weights to write, in nats, [..., heads, q_len]", &Extras::entropy,
       &Shapes::rows},
      {"--top-keys", "each row's keys of largest weight to write, i64 [..., heads, q_len, n]", &Extras::top_keys,
       &Shapes::top, needs("--top-weights")},
      {"--top-weights", "their weights to write, [..., heads, q_len, n]", &Extras::top_weights, &Shapes::top,
       needs("--top-keys")},
      {"--received", "how much weight each key received to write, [..., heads, k_len]", &Extras::received,
       &Shapes::received},
      {"--block-weights", "averages of the weights over blocks to write, [..., heads, n, n]", &Extras::block_weights,
       &Shapes::blocks},
      {"--row-weights", "the weights of the --rows alone to write, [n, k_len]", &Extras::row_weights, &Shapes::chosen,
       needs("--rows")}};
  return list;
}

}  // namespace

AttendOutputs::AttendOutputs(Command& command, ArrayFiles& files)
    : outputs_([&files] {
        std::vector<const ArrayOption*> options;
        for (const Output& one : outputs()) options.push_back(&files.output(one.option, one.help, one.rules));
        return options;
      }()),
      rows_(files.input("--rows", "i64 [n, 3]: batch, head and query of chosen rows; packed: the query in its sequence",
                        needs("--row-weights"))) {
  command.add({{"--top", size(top_, 1024), "how many keys that is (default 8)", needs("--top-keys")},
               {"--blocks", size(blocks_, 4096), "how many blocks along queries and along keys (default 64)",
                needs("--block-weights")}});
}

void AttendOutputs::read() { rows_.read(); }

AttentionExtras AttendOutputs::allocate(ArrayFiles& files, RowShapes shapes) const {
  AttentionExtras extras;
  extras.rows = rows_.view();
  shapes.chosen = {extras.rows.rank() > 0 ? extras.rows.size(0) : 0, shapes.length};
  shapes.pairs = shapes.with(shapes.length);
  shapes.top = shapes.with(top_);
  for (int i = 0; i < 2; ++i) shapes.blocks.push_back(blocks_);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& [option, help, view, shape, rules] = outputs()[i];
    const Dtype dtype = view == &AttentionExtras::top_keys ? Dtype::i64 : shapes.dtype;
    extras.*view = files.allocate(*outputs_[i], shapes.*shape, dtype);
  }
  return extras;
}

}  // namespace qkv::app
