// Takes the logarithm of sums in double.
#include "attention/tile/log_sum_exp.h"

#include <limits>

#include "core/mathematics.h"

namespace qkv::inline attending {

template <class T>
T log_sum_exp(T maximum, T sum, double unit) {
  if (sum == 0) return -std::numeric_limits<T>::infinity();
  return static_cast<T>(unit * static_cast<double>(maximum) + log(static_cast<double>(sum)));
}
template float log_sum_exp(float, float, double);
template double log_sum_exp(double, double, double);

}  // namespace qkv::inline attending
