// The library's elementary functions beside those of the C library, in turns, by the thread's processor time: the
// median of the turns' ratios. Numbers above 1 are in our favour. The C library chooses its code by the CPU, with fused
// operations where it has them; GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2_Usable shows it without them.
//
//   mathematics_bench [TURNS]     default 1000
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/mathematics.h"
#include "processor_time.h"
#include "qkv/random.h"

namespace qkv::bench {
namespace {

template <class T, class Function>
double seconds_of(const std::vector<T>& numbers, Function function) {
  const double begin = processor_seconds();
  T sum = 0;
  for (const T x : numbers) sum += function(x);
  const volatile T kept = sum;
  (void)kept;
  return processor_seconds() - begin;
}

template <class T, class Own, class Foreign>
void compare(const char* name, double low, double high, int turns, Own own, Foreign foreign) {
  constexpr std::size_t kNumbers = 4096;
  Random random(1);
  std::vector<T> numbers(kNumbers);
  for (T& x : numbers) x = static_cast<T>(low + (high - low) * random.uniform());
  std::vector<double> ratios;
  for (int i = 0; i < turns; ++i) {
    const double ours = seconds_of(numbers, own);
    ratios.push_back(seconds_of(numbers, foreign) / ours);
  }
  std::ranges::sort(ratios);
  fmt::print("{:<5} {:g} to {:g}: {:.2f} times the C library's speed\n", name, low, high, ratios[ratios.size() / 2]);
}

void compare_all(int turns) {
  compare<double>("exp", -20, 20, turns, [](double x) { return exp(x); }, [](double x) { return std::exp(x); });
  compare<double>("log", 0, 20, turns, [](double x) { return log(x); }, [](double x) { return std::log(x); });
  compare<double>("pow", 0, 20, turns, [](double x) { return pow(x, 0.7); }, [](double x) { return std::pow(x, 0.7); });
  for (const double most : {7.0, 1e4, 1e9}) {
    compare<double>("sin", -most, most, turns, [](double x) { return sin(x); }, [](double x) { return std::sin(x); });
    compare<double>("cos", -most, most, turns, [](double x) { return cos(x); }, [](double x) { return std::cos(x); });
  }
  compare<double>("tanh", -3, 3, turns, [](double x) { return tanh(x); }, [](double x) { return std::tanh(x); });
  compare<float>("expf", -20, 20, turns, [](float x) { return exp(x); }, [](float x) { return std::exp(x); });
  compare<float>("logf", 0, 20, turns, [](float x) { return log(x); }, [](float x) { return std::log(x); });
}

}  // namespace
}  // namespace qkv::bench

int main(int argc, char** argv) { qkv::bench::compare_all(argc > 1 ? std::atoi(argv[1]) : 1000); }
