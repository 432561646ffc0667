// Chooses units, and as many digits as say something.
#include "figures.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>

namespace qkv::app {
namespace {

// In the largest of the units, each 1000 times the one before, that leaves a number of 1 or more.
std::string in_unit(double value, std::span<const char* const> units) {
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 9.95 && value > 0 ? 1 : 0, units[unit]);
}

}  // namespace

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
  return bytes < 999.5 ? fmt::format("{:.0f} bytes", bytes) : in_unit(bytes / 1000, kUnits);
}

std::string seconds_text(double seconds) {
  constexpr const char* kUnits[] = {"us", "ms"};
  if (seconds >= 3600) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 60) return fmt::format("{:.1f} min", seconds / 60);
  return seconds >= 0.9995 ? fmt::format("{:.1f} s", seconds) : in_unit(seconds * 1e6, kUnits);
}

std::string percent_text(double share) {
  return share > 0 && share < 0.005 ? "under 1 %" : fmt::format("{:.0f} %", 100 * share);
}

}  // namespace qkv::app
