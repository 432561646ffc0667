// The mask, the bias and the sinks of a call after they were checked: who may attend and what is added, for each head
// of each sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/call/attention_inputs.h"
#include "attention/call/documents.h"
#include "attention/call/memory_count.h"
#include "attention/call/table_biases.h"
#include "attention/options/mask_kinds.h"
#include "attention/tile/attention_task.h"
#include "qkv/attention.h"

namespace qkv::inline attending {

class AttentionRules {
 public:
  // std::invalid_argument, naming sizes, for whatever does not fit the inputs (see mask.h and bias.h).
  AttentionRules(const AttentionInputs& inputs, const AttentionOptions& options, MemoryCount& memory);

  void set(CommonTask& common) const;
  // The rules of head h of sequence b, whose lengths the task already holds.
  void set(AttentionTask& task, std::int64_t b, std::int64_t h) const;

  // Whether they are the same for all heads. (Mask functions and what is added to logits are taken to differ.)
  bool are_alike_for_heads() const;

 private:
  void check_prefix(const AttentionInputs& inputs, const TensorView& view, MemoryCount& memory);
  void add_boolean(const AttentionInputs& inputs, const Mask::Part& part);
  // Blocks for the boolean views that came without, if one of the inputs's sequences has several queries: one alone
  // reads a row of bytes.
  void compile_booleans(const AttentionInputs& inputs, MemoryCount& memory);
  void check_bias(const AttentionInputs& inputs, const Bias& bias);
  void check_sinks(const AttentionInputs& inputs, const TensorView& sinks);

  Dims mask_batch_;
  Align align_ = Align::top_left;
  MaskBounds bounds_;
  std::vector<std::int64_t> prefixes_;         // per sequence; empty: none
  std::vector<TensorView> booleans_, biases_;  // [batch dimensions ..., heads, q_len, k_len]
  // [batch dimensions ..., heads, groups of queries, words], of each boolean view; not given: nothing is known.
  struct Blocks {
    std::shared_ptr<const BooleanBlocks> made;  // nullptr: not compiled
    TensorView some, every;
  };
  void set_blocks(std::size_t n, std::shared_ptr<const BooleanBlocks> made, std::int64_t heads);
  std::vector<TensorView> given_booleans_;
  std::vector<Blocks> boolean_blocks_;
  std::vector<TensorView> alibi_;  // [batch dimensions ..., heads]
  TableBiases tables_;
  std::shared_ptr<const Documents> documents_;  // nullptr: none
  std::vector<MaskFunction> mask_functions_;
  std::vector<double> sinks_;  // per head; empty: none
};

}  // namespace qkv::inline attending
