// Base64 by the test vectors of RFC 4648, section 10, and text that is none.
#include "io/base64.h"

namespace qkv::io {
namespace {

TEST(Base64, ThereAndBack) {
  const std::pair<const char*, std::string> cases[] = {{"", ""},
                                                       {"Zg==", "f"},
                                                       {"Zm8=", "fo"},
                                                       {"Zm9v", "foo"},
                                                       {"Zm9vYg==", "foob"},
                                                       {"Zm9vYmE=", "fooba"},
                                                       {"Zm9vYmFy", "foobar"},
                                                       {"+/8A", {"\xFB\xFF\0", 3}}};
  for (const auto& [text, bytes] : cases) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(base64_size(bytes.size()), std::string_view(text).size());
    EXPECT_EQ(decode_base64(text), bytes) << text;
  }
}

TEST(Base64, IsWholeOrNothing) {
  for (const char* broken : {"Z", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm 9", "Zm9-", "Zg==Zg=="}) {
    EXPECT_EQ(decode_base64(broken), std::nullopt) << broken;
  }
}

}  // namespace
}  // namespace qkv::io
