#include "attend_cache.h"

namespace qkv::app {

AttendCache::AttendCache(ArrayFiles& files)
    : past_key_(
          files.input("--past-key",
                      "[batch, kv_heads, past, head_dim]: keys of earlier tokens, to which --key is appended; the "
                      "queries stand at the end of all")),
      past_value_(files.input("--past-value", "[batch, kv_heads, past, value_dim]: the values of these tokens")),
      present_key_(files.output("--present-key", "all keys to write, the appended ones last")),
      present_value_(files.output("--present-value", "all values to write")) {
  past_key_.declared->needs(past_value_.declared);
  past_value_.declared->needs(past_key_.declared);
  present_key_.declared->needs(past_key_.declared);
  present_value_.declared->needs(past_key_.declared);
}

void AttendCache::exclude(CLI::App& command, std::initializer_list<const char*> options) const {
  for (const char* option : options) past_key_.declared->excludes(command.get_option(option));
}

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

void AttendCache::place(ArrayFiles& files, const TensorView& key, const TensorView& value, Dtype dtype) const {
  const auto join = [&](const ArrayOption& output, const TensorView& past, const TensorView& appended) {
    if (!output.given()) return;
    const std::int64_t before = past.size(2), all = before + appended.size(2);
    const MutableTensorView joined = files.place(output, {past.size(0), past.size(1), all, past.size(3)}, dtype);
    convert(past, joined.slice(2, 0, before));
    convert(appended, joined.slice(2, before, all));
  };
  join(present_key_, past_key_.view(), key);
  join(present_value_, past_value_.view(), value);
}

}  // namespace qkv::app
