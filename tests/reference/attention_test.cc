// What the specification of attention does besides its numbers, which are the expectation of other tests.
#include "reference/attention.h"

#include <gtest/gtest.h>

#include "qkv/error.h"

namespace qkv {
namespace {

// The second pair asks for an end, so that the third is never looked at.
TEST(ReferenceAttention, StopsBetweenPairs) {
  std::stop_source source;
  int asked = 0;
  const AttentionOptions options{.logit_function = logit_function([&](double logit, const Pair&) {
                                   if (++asked == 2) source.request_stop();
                                   return logit;
                                 }),
                                 .stop = source.get_token()};
  const Tensor ones = Tensor::zeros({1, 1, 3, 2}, Dtype::f64);
  EXPECT_THROW(reference::attention(ones, ones, ones, options), Stopped);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace qkv
