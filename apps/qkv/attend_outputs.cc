#include "attend_outputs.h"

#include "attention_sizes.h"

namespace qkv::app {

AttendOutputs::AttendOutputs(CLI::App& command, ArrayFiles& files)
    : weights_(files.output("--weights", "the weights to write, [..., heads, q_len, k_len]")),
      logits_(files.output("--logits", "the logits to write, -inf where masked, [..., heads, q_len, k_len]")),
      log_sum_exp_(files.output("--log-sum-exp", "the log-sum-exp to write, [..., heads, q_len]")),
      row_maximum_(files.output("--row-maximum", "each row's largest logit to write, [..., heads, q_len]")),
      entropy_(files.output("--entropy", "the entropy of each row of weights to write, in nats, [..., heads, q_len]")),
      top_keys_(files.output("--top-keys", "each row's keys of largest weight to write, i64 [..., heads, q_len, n]")),
      top_weights_(files.output("--top-weights", "their weights to write, [..., heads, q_len, n]")),
      received_(files.output("--received", "how much weight each key received to write, [..., heads, k_len]")),
      block_weights_(
          files.output("--block-weights", "averages of the weights over blocks to write, [..., heads, n, n]")),
      row_weights_(files.output("--row-weights", "the weights of the --rows alone to write, [n, k_len]")),
      rows_(files.input("--rows",
                        "i64 [n, 3]: batch, head and query of chosen rows; packed: the query in its "
                        "sequence")) {
  const auto belong_together = [](const ArrayOption& a, const ArrayOption& b) {
    a.declared->needs(b.declared);
    b.declared->needs(a.declared);
  };
  belong_together(top_keys_, top_weights_);
  belong_together(rows_, row_weights_);
  add_size(command, "--top", top_, "how many keys that is (default 8)", 1024)->needs(top_keys_.declared);
  add_size(command, "--blocks", blocks_, "how many blocks along queries and along keys (default 64)", 4096)
      ->needs(block_weights_.declared);
}

void AttendOutputs::read() { rows_.read(); }

AttentionExtras AttendOutputs::place(ArrayFiles& files, const RowShapes& shapes) const {
  const auto place = [&](const ArrayOption& output, const Dims& shape) {
    return files.place(output, shape, shapes.dtype);
  };
  Dims blocks = shapes.blocks;
  blocks.push_back(blocks_);
  blocks.push_back(blocks_);
  AttentionExtras extras;
  extras.weights = place(weights_, shapes.with(shapes.length));
  extras.logits = place(logits_, shapes.with(shapes.length));
  extras.log_sum_exp = place(log_sum_exp_, shapes.rows);
  extras.rows = rows_.view();
  if (rows_.given())
    extras.row_weights = place(row_weights_, {extras.rows.rank() > 0 ? extras.rows.size(0) : 0, shapes.length});
  extras.row_maximum = place(row_maximum_, shapes.rows);
  extras.entropy = place(entropy_, shapes.rows);
  extras.top_keys = files.place(top_keys_, shapes.with(top_), Dtype::i64);
  extras.top_weights = place(top_weights_, shapes.with(top_));
  extras.received = place(received_, shapes.received);
  extras.block_weights = place(block_weights_, blocks);
  return extras;
}

}  // namespace qkv::app
