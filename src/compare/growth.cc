// Fits powers to measurements.
#include "compare/growth.h"

#include "core/mathematics.h"

namespace qkv::comparison {

double fitted_exponent(const std::vector<std::int64_t>& lengths, const std::vector<double>& values) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto count = static_cast<double>(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (!(values[i] > 0)) return 0;
    const double length = log(static_cast<double>(lengths[i])), value = log(values[i]);
    x += length, y += value, xx += length * length, xy += length * value;
  }
  const double spread = count * xx - x * x;
  return spread > 0 ? (count * xy - x * y) / spread : 0;
}

ComparedGrowth growth_of(const std::vector<std::int64_t>& lengths, const std::function<double(std::int64_t)>& value) {
  ComparedGrowth growth{.lengths = lengths};
  for (const std::int64_t length : lengths) growth.values.push_back(value(length));
  growth.exponent = fitted_exponent(lengths, growth.values);
  return growth;
}

}  // namespace qkv::comparison
