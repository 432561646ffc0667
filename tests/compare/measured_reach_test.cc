// A model sees as far as its layers say.
#include "compare/measured_reach.h"

#include <gtest/gtest.h>

namespace qkv::comparison {
namespace {

TEST(MeasuredReach, IsWhatIsCountedFromTheLayers) {
  for (const SequenceKind kind :
       {SequenceKind::rnn, SequenceKind::lstm, SequenceKind::gru, SequenceKind::cnn, SequenceKind::transformer}) {
    for (const std::int64_t length : {1, 2, 40}) {
      const SequenceModel model({.kind = kind, .vocab = 9, .embedding = 16, .width = 24}, 1, Dtype::f64);
      EXPECT_EQ(measured_reach(model, length, 2), reach(model.graph(length)));
    }
  }
}

}  // namespace
}  // namespace qkv::comparison
