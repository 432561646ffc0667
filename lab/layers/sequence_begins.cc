// Checks the shape and the offsets of a batch.
#include "lab/layers/sequence_begins.h"

#include "core/refuse.h"

namespace qkv::inline layers {

std::vector<std::int64_t> offset_begins(std::string_view layer, const TensorView& offsets) {
  refuse_unless(offsets.dtype() == Dtype::i32 && offsets.rank() == 1 && offsets.size(0) > 0, layer,
                "offsets are {} {}; they must be i32 [batch + 1]", name_of(offsets.dtype()),
                to_string(offsets.shape()));
  std::vector<std::int64_t> begins;
  for (std::int64_t b = 0; b < offsets.size(0); ++b) {
    const std::int64_t next = offsets.at<std::int32_t>({b});
    refuse_unless(b == 0 ? next == 0 : next >= begins.back(), layer,
                  "offsets must begin with 0 and never fall; at {} is {}", b, next);
    begins.push_back(next);
  }
  return begins;
}

std::vector<std::int64_t> sequence_begins(std::string_view layer, const Sequences& x, std::int64_t size) {
  const int rank = x.rows.rank();
  refuse_unless(rank >= 2 && rank <= (x.ragged() ? 2 : 3) && x.rows.size(-1) == size, layer,
                "the input is {}{}; it must be [batch, length, {}], or rows [tokens, {}] with offsets",
                to_string(x.rows.shape()), x.ragged() ? " with offsets" : "", size, size);
  if (x.ragged()) {
    std::vector<std::int64_t> begins = offset_begins(layer, x.offsets);
    refuse_unless(begins.back() == x.rows.size(0), layer, "offsets end with {}; the input has {} rows", begins.back(),
                  x.rows.size(0));
    return begins;
  }
  std::vector<std::int64_t> begins{0};
  const std::int64_t batch = rank == 2 ? 1 : x.rows.size(0);
  for (std::int64_t b = 0; b < batch; ++b) begins.push_back(begins.back() + x.rows.size(-2));
  return begins;
}

}  // namespace qkv::inline layers
