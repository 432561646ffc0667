// Elementary functions of everything that reaches a result: the same bits from every compiler, C library and CPU.
// Errors are at most 1 unit in the last place in f32, 2 in f64; arguments outside of a function's domain, infinities,
// NaN and zeros give what <cmath> says.
#pragma once

#include <cstdint>

namespace qkv::inline core {

double exp(double x);
double log(double x);  // natural
double log10(double x);
double pow(double x, double y);
double sin(double x);
double cos(double x);
double tanh(double x);

float exp(float x);
float log(float x);

// unit * maximum + ln(sum), or -infinity for sum 0: the natural log-sum-exp of a row whose maximum is in units of
// `unit`.
template <class T>
T log_sum_exp(T maximum, T sum, double unit);
extern template float log_sum_exp(float, float, double);
extern template double log_sum_exp(double, double, double);

// The quotient of whole numbers, rounded up: parts of size b that hold a.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace qkv::inline core
