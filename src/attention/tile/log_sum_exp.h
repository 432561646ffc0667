// The log-sum-exp of a row, of its maximum and its sum.
#pragma once

namespace qkv::inline attending {

// unit * maximum + ln(sum), or -infinity for sum 0: the natural log-sum-exp of a row whose maximum is in units of
// `unit`.
template <class T>
T log_sum_exp(T maximum, T sum, double unit);
extern template float log_sum_exp(float, float, double);
extern template double log_sum_exp(double, double, double);

}  // namespace qkv::inline attending
