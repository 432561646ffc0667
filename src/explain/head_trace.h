// What the explanations of a model's heads share: an observer that keeps what the kernel computed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "qkv/explain/explain_model.h"
#include "qkv/observer.h"

namespace qkv {

class Listener : public Observer {
 public:
  using Listen = std::function<void(std::string_view, const TensorView&)>;
  explicit Listener(Listen listen) : listen_(std::move(listen)) {}
  void receive(std::string_view name, const TensorView& value) override { listen_(name, value); }

 private:
  Listen listen_;
};

// std::invalid_argument, saying which there are.
void check_index(const HeadIndex& index, std::int64_t layers, std::int64_t heads);

// One head's part of a ragged intermediate, [tokens, heads, size], as f64.
Tensor part_of(const TensorView& value, std::int64_t head);

// Keeps an intermediate named `scope` + query, key, value, logits, weights or heads.
void keep_part(HeadTrace& trace, std::string_view scope, std::string_view name, const TensorView& value);

// Derives the rest from what was kept; `special` as Encoding has it, for the keys.
void complete(HeadTrace& trace, std::span<const std::uint8_t> special);

}  // namespace qkv
