// Looks a name up in the rows that stubs.py makes of qkv/_qkv.pyi.
#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "bindings.h"

namespace qkv::python {
namespace {

constexpr Stub kStubs[] = {
#include "stubs.inc"
};

}  // namespace

std::span<const Stub> stubs_of(const std::string& name) {
  const auto is_its = [&](const Stub& stub) { return std::string_view(stub.name) == name; };
  const auto* const first = std::ranges::find_if(kStubs, is_its);
  const auto* const last = std::find_if_not(first, std::end(kStubs), is_its);
  if (first == last) throw std::logic_error("the stub lacks " + name);
  return {first, last};
}

}  // namespace qkv::python
