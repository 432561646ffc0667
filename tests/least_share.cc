// The tests' tensors are small: threads share them all the same, so that what they compute together is tested.
#include "core/worth_waking.h"

namespace qkv {
namespace {

const bool shared = [] {
  set_least_share({1, 1});
  return true;
}();

}  // namespace
}  // namespace qkv
