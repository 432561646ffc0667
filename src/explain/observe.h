// A run of an input with a function for its observer.
#pragma once

#include <functional>
#include <string_view>

#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

inline void observe(const Explainable& input, const std::function<void(std::string_view, const TensorView&)>& receive) {
  struct Caller : Observer {
    explicit Caller(const std::function<void(std::string_view, const TensorView&)>& f) : function(f) {}
    void receive(std::string_view name, const TensorView& value) override { function(name, value); }
    const std::function<void(std::string_view, const TensorView&)>& function;
  } caller(receive);
  input.run(caller);
}

// One head's part of an intermediate, [tokens, heads, size], as f64.
inline Tensor part_of(const TensorView& value, std::int64_t head) { return convert(value.select(1, head), Dtype::f64); }

}  // namespace qkv::inline explaining
