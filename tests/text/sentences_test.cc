// Sentences: by hand, and of texts put together from sentences that are known.
#include "text/sentences.h"

#include "qkv/random.h"

namespace qkv::text {
namespace {

using Sentences = std::vector<std::string>;

Sentences split(const std::string& text, SentenceBegin begin = SentenceBegin::not_lower_case) {
  const auto views = split_sentences(text, begin);
  return {views.begin(), views.end()};
}

// What bars separate, without the space around it.
Sentences parts(const std::string& barred) {
  Sentences all;
  std::istringstream rest(barred);
  for (std::string part; std::getline(rest, part, '|');) {
    const std::size_t begin = part.find_first_not_of(" \t\n"), end = part.find_last_not_of(" \t\n");
    if (begin != std::string::npos) all.push_back(part.substr(begin, end - begin + 1));
  }
  return all;
}

// Texts with a bar wherever a sentence begins behind another.
TEST(Sentences, ByHand) {
  for (const std::string barred :
       {"", " \t\n", "No mark", "  One.|  Two!|\nThree?| 4 is one, too... ", "Wait... what?| She said: no.",
        "\"Stop!\" he said.| Then he left.", "Really?!| Yes\u2026| No.",
        "It is 3.14 of version 2.0 at example.com.| Yes.", "all lower. in one. piece.",
        // Abbreviations and numbers do not end a sentence.
        "Dr. Smith met Mrs. Jones.| They spoke.", "J. R. Hartley came from the U.S. Army.| Good.",
        "See fig. 0 and No. 9, p. 7.| He said no.| It was late.", "1. Open the file.| 2. Close it in 1999.| Then rest.",
        "El Sr. L\u00f3pez y la Sra. P\u00e9rez viven en EE.UU. Pero no aqu\u00ed.| S\u00ed.",
        "D\u00f1a. Ana, n\u00fam. 4.| Fin.",
        // Quotes and brackets stay with their sentence.
        "He said \"Go.\"| She went.| (It rained.)| \u00abEnd.\u00bb| \u201cNew.\u201d| 'Old.'| Last",
        "Go.| \"Stay.\"| 'Why?'", "Ok.\"B",
        // Spaces may be missing.
        "Hello.|How are you?|Fine!|I am.", "Open README.TXT and Node.JS in U.S.A now.",
        "Hola.|\u00bfQu\u00e9 tal?|\u00a1Bien! \u00bfy t\u00fa? s\u00ed",
        "\u4f60\u597d\u3002|\u4f60\u5728\u54ea\u91cc\uff1f|\u300c\u597d\u3002\u300d|\u518d\u89c1\uff01",
        // Bytes that are not UTF-8 are kept.
        "One\xff.| Two\xe2\x82.| \x80"}) {
    std::string text = barred;
    std::erase(text, '|');
    EXPECT_EQ(split(text), parts(barred)) << text;
  }
  EXPECT_EQ(split("all lower. in e.g. one. piece.", SentenceBegin::anything), parts("all lower.|in e.g. one.|piece."));
  EXPECT_TRUE(ends_wide("\u597d\u3002"));  // no space stands there
  EXPECT_FALSE(ends_wide("\u597d."));
  EXPECT_FALSE(ends_wide(""));
}

// Each of these is one sentence wherever it is; a gap of nothing may come before the second list alone.
const Sentences kSpaced = parts(
    "Mr. Brown left.|Is it 5 p.m. yet?|He said \"Stop!\" twice.|Wait... or go?|See fig. 2, e.g. there.|\u00a1Hola!|"
    "\u00bfQui\u00e9n es el Sr. D\u00edaz?|(Yes.)|\u201cNever again\u2026\u201d|It cost 3.50!|7. Then close it.");
const Sentences kUnspaced = {"Then it ended.", "\u00bfC\u00f3mo est\u00e1s?", "\u00a1Adi\u00f3s!"};
const Sentences kWide = {"\u4f60\u597d\u3002", "\u300c\u597d\uff01\u300d", "\u7248\u672c3.5\uff1f"};

TEST(Sentences, TextsPutTogetherComeApart) {
  Random random(20261122);
  const auto one_of = [&](const Sentences& list) { return list[random.below(list.size())]; };
  for (int round = 0; round < 2000; ++round) {
    Sentences expected;
    std::string text;
    for (std::size_t left = 1 + random.below(8); left > 0; --left) {
      const std::size_t kind = random.below(3);
      const bool after_word = !expected.empty() && expected.back() == "Then it ended.";
      const bool after_wide = !expected.empty() && ends_wide(expected.back());
      const bool may_touch = text.empty() || after_wide || (kind == 1 && after_word);
      expected.push_back(one_of(kind == 0 ? kSpaced : kind == 1 ? kUnspaced : kWide));
      if (!may_touch || random.below(2) == 0) text += one_of({" ", "  ", "\t", "\n"});
      text += expected.back();
    }
    ASSERT_EQ(split(text), expected) << text;
  }
}

// Of any text: no sentence is empty, and nothing but white space is lost.
TEST(Sentences, LoseNothing) {
  const Sentences kPieces = {"a",      "A",      "Mr",     ".",      "..",  "\u2026", "!",      "?",
                             "\"",     "'",      ")",      "(",      " ",   "  ",     "\n",     "3",
                             "\u00bf", "\u00a1", "\u3002", "\u300d", "e.g", "\u00e9", "\u00c9", "\xff"};
  Random random(7);
  const auto without_space = [](std::string text) {
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t i = random.below(30); i > 0; --i) text += kPieces[random.below(kPieces.size())];
    for (const SentenceBegin begin : {SentenceBegin::not_lower_case, SentenceBegin::anything}) {
      std::string together;
      for (const std::string& sentence : split(text, begin)) {
        EXPECT_EQ(sentence.find_first_not_of(" \n"), 0u);
        together += sentence;
      }
      EXPECT_EQ(without_space(together), without_space(text));
    }
  }
}

}  // namespace
}  // namespace qkv::text
