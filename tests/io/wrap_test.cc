// Text in lines of a width.
#include "io/wrap.h"

namespace qkv {
namespace {

using Lines = std::vector<std::string>;

TEST(Wrapped, BreaksAtSpacesAndKeepsIndents) {
  const std::tuple<std::string, std::size_t, Lines> cases[] = {{"", 5, {""}},
                                                               {"one", 3, {"one"}},
                                                               {"one two", 7, {"one two"}},
                                                               {"one two", 6, {"one", "two"}},
                                                               {"one two", 3, {"one", "two"}},
                                                               {"one  two   six", 8, {"one  two", "six"}},
                                                               {"a longword b", 4, {"a", "longword", "b"}},
                                                               {"longword", 4, {"longword"}},
                                                               {"  one two\n\nsix", 6, {"  one", "  two", "", "six"}},
                                                               {"one  ", 3, {"one  "}}};
  for (const auto& [text, width, lines] : cases) EXPECT_EQ(wrapped(text, width), lines) << text;
}

}  // namespace
}  // namespace qkv
