/// \file
/// A user's own mask and a user's own change of the logits, compiled with the user's code: a function of one pair of
/// query and key becomes a loop over a tile of pairs, which the compiler sees as a whole.
///
///     const MaskFunction dilated = mask_function([](const Pair& at) { return (at.position - at.key) % 2 == 0; });
///     const LogitFunction decay = logit_function([](auto logit, const Pair& at) { return logit - 0.1f * at.key; });
///     attention(q, k, v, out, {.mask = Mask::causal() & Mask::function(dilated), .logit_function = decay});
///
/// Functions are called from several threads at once, in any order, also more than once and for pairs that other masks
/// hide; they must give the same answer every time. Cost: docs/lab/attention_forward.md.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "qkv/api.h"

namespace qkv {

/// A query and a key, by their indices in their sequence.
struct Pair {
  std::int32_t batch;  ///< the sequence
  std::int32_t head;   ///< of the queries
  std::int32_t query;
  std::int32_t key;
  std::int32_t position;  ///< of the query among the keys: p in mask.h
};

/// A rectangle of pairs: the pair of query first.query + i and key first.key + j is at[i * query_step + j * key_step];
/// one of the steps is 1.
template <class Element>
struct PairTile {
  Pair first;
  std::int32_t queries, keys;
  std::int64_t query_step, key_step;
  Element* at;
};

/// each(element, pair) for every pair of the tile.
template <class Element, class Each>
void for_each_pair(const PairTile<Element>& tile, const Each& each) {
  const Pair first = tile.first;
  const auto visit = [&](std::int32_t i, std::int32_t j, Element& element) {
    each(element, Pair{first.batch, first.head, first.query + i, first.key + j, first.position + i});
  };
  if (tile.query_step == 1) {
    for (std::int32_t j = 0; j < tile.keys; ++j) {
      Element* row = tile.at + j * tile.key_step;
      for (std::int32_t i = 0; i < tile.queries; ++i) visit(i, j, row[i]);
    }
  } else {
    for (std::int32_t i = 0; i < tile.queries; ++i) {
      Element* row = tile.at + i * tile.query_step;
      for (std::int32_t j = 0; j < tile.keys; ++j) visit(i, j, row[j]);
    }
  }
}

/// Says of each pair whether the query may attend to the key: 1 or 0.
class QKV_API MaskFunction {
 public:
  template <std::predicate<const Pair&> Function>
  explicit MaskFunction(Function function)
      : object_(std::make_shared<const Function>(std::move(function))), fill_([](const void* object, const Tile& tile) {
          const Function& visible = *static_cast<const Function*>(object);
          for_each_pair(tile, [&](std::uint8_t& element, const Pair& pair) { element = visible(pair) ? 1 : 0; });
        }) {}

  using Tile = PairTile<std::uint8_t>;
  void fill(const Tile& tile) const { fill_(object_.get(), tile); }

 private:
  std::shared_ptr<const void> object_;
  void (*fill_)(const void*, const Tile&);
};

/// Maps each logit, after scale, soft cap and bias, to the input of softmax. The logit is a float, a double for f64
/// inputs: take it as `auto`. Its result follows IEEE arithmetic: to hide a key, use a mask.
class QKV_API LogitFunction {
 public:
  LogitFunction() = default;  ///< logits stay what they are

  template <class Function>
    requires std::is_invocable_r_v<double, const Function&, double, const Pair&>
  explicit LogitFunction(Function function)
      : object_(std::make_shared<const Function>(std::move(function))),
        change_floats_(&change<Function, float>),
        change_doubles_(&change<Function, double>) {}

  explicit operator bool() const { return object_ != nullptr; }
  void change_tile(const PairTile<float>& logits) const { change_floats_(object_.get(), logits); }
  void change_tile(const PairTile<double>& logits) const { change_doubles_(object_.get(), logits); }

 private:
  template <class Function, class T>
  static void change(const void* object, const PairTile<T>& logits) {
    const Function& function = *static_cast<const Function*>(object);
    for_each_pair(logits, [&](T& logit, const Pair& pair) { logit = static_cast<T>(function(logit, pair)); });
  }

  std::shared_ptr<const void> object_;
  void (*change_floats_)(const void*, const PairTile<float>&) = nullptr;
  void (*change_doubles_)(const void*, const PairTile<double>&) = nullptr;
};

template <class Function>
MaskFunction mask_function(Function function) {
  return MaskFunction(std::move(function));
}

template <class Function>
LogitFunction logit_function(Function function) {
  return LogitFunction(std::move(function));
}

}  // namespace qkv
