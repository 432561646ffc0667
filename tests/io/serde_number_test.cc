// Numbers as serde_json reads them, against those that the tokenizers library holds (golden/tokenizer/make_numbers.py).
#include "io/json/serde_number.h"

#include "io/files_for_test.h"
#include "io/json/json_document.h"

namespace qkv::io {
namespace {

const std::string kNumbers = QKV_TEST_DATA "/golden/tokenizer/numbers";

TEST(SerdeNumber, IsWhatTheReferenceReads) {
  const auto read = nlohmann::json::parse(test::slurp(kNumbers + "_read.json")).at("read");
  const std::string file = test::slurp(kNumbers + ".json");
  const JsonDocument document(file, "numbers.json", JsonNumbers::serde);
  const std::vector<JsonValue> pieces = document.root()["model"]["vocab"].elements();
  ASSERT_EQ(pieces.size(), read.size());
  std::istringstream lines(file);  // one piece each: ["\u4e00", -9.75],
  std::size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i) {
    const std::size_t begin = line.rfind(", ") + 2;
    const std::string number = line.substr(begin, line.find(']', begin) - begin);
    const double expected = std::strtod(read.at(i).get<std::string>().c_str(), nullptr);
    EXPECT_EQ(serde_number(number), expected) << number;
    EXPECT_EQ(std::signbit(serde_number(number)), std::signbit(expected)) << number;
    EXPECT_EQ(pieces[i].elements().at(1).number(), expected) << number;
  }
  EXPECT_EQ(i, read.size());
}

// 123 * 10^-1 and 1e23 by hand; the rest are the rules of src/de.rs.
TEST(SerdeNumber, DividesAnIntegerByAPowerOfTen) {
  EXPECT_EQ(serde_number("12.3"), 123 / 10.0);
  EXPECT_EQ(serde_number("12,3"), 123 / 10.0);  // as the parser hands it over in some locales
  EXPECT_EQ(serde_number("1.25E-3"), 125 / 1e5);
  EXPECT_EQ(serde_number("12345678901234567890123e-2"), 12345678901234567890.0 * 10);  // the digits behind 20 are zeros
  EXPECT_EQ(serde_number("0e999999999999999999999"), 0);
  EXPECT_EQ(serde_number("1e-999999999999999999999"), 0);
  EXPECT_EQ(serde_number("1e309"), INFINITY);
  EXPECT_EQ(serde_number("-1000e306"), -INFINITY);
}

}  // namespace
}  // namespace qkv::io
