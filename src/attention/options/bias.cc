// Bias: collects views, ALiBi slopes and tables, and joins two biases.
#include "qkv/attention/bias.h"

namespace qkv {

Bias Bias::view(TensorView values) {
  Bias bias;
  bias.views_.push_back(values);
  return bias;
}

Bias Bias::alibi(TensorView slopes) {
  Bias bias;
  bias.alibi_.push_back(slopes);
  return bias;
}

Bias Bias::table(const RelativeTable& table) {
  Bias bias;
  bias.tables_.push_back(table);
  return bias;
}

Bias operator+(Bias a, const Bias& b) {
  a.views_.insert(a.views_.end(), b.views_.begin(), b.views_.end());
  a.alibi_.insert(a.alibi_.end(), b.alibi_.begin(), b.alibi_.end());
  a.tables_.insert(a.tables_.end(), b.tables_.begin(), b.tables_.end());
  return a;
}

}  // namespace qkv
