#include "attend_cache.h"

namespace qkv::app {

KeyValueCache AttendCache::append(const TensorView& key, const TensorView& value) const {
  const TensorView past = past_key_.view();
  const auto extent = [](const TensorView& array, int dim) { return array.rank() == 4 ? array.size(dim) : 1; };
  KeyValueCache cache({.batch = extent(past, 0),
                       .kv_heads = extent(past, 1),
                       .head_dim = extent(past, 3),
                       .value_dim = extent(past_value_.view(), 3),
                       .dtype = past.dtype()});
  cache.append(past, past_value_.view());  // refuses what has not four dimensions
  cache.append(key, value);
  return cache;
}

void AttendCache::allocate(const TensorView& key, const TensorView& value, Dtype dtype) const {
  const auto join = [&](const ArrayOption& output, const TensorView& past, const TensorView& appended) {
    if (!output.given()) return;
    const std::int64_t before = past.size(2), all = before + appended.size(2);
    const MutableTensorView joined = files_.allocate(output, {past.size(0), past.size(1), all, past.size(3)}, dtype);
    convert(past, joined.slice(2, 0, before));
    convert(appended, joined.slice(2, before, all));
  };
  join(present_key_, past_key_.view(), key);
  join(present_value_, past_value_.view(), value);
}

}  // namespace qkv::app
