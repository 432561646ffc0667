// What is refused, with and without the name of who refuses it.
#include "core/refuse.h"

namespace qkv {
namespace {

TEST(Refusal, HasItsTextApartFromItsSubject) {
  try {
    refuse("a_function", "{}: {} must be below {}", "n", 3, 2);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "a_function: n: 3 must be below 2");
    const auto* refusal = dynamic_cast<const Refusal*>(&error);
    ASSERT_NE(refusal, nullptr);
    EXPECT_STREQ(refusal->text(), "n: 3 must be below 2");
  }
}

}  // namespace
}  // namespace qkv
