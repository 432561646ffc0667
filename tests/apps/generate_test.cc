// qkv generate: prompts in, texts out, as they grow or a line each; the rest is pipelines/generator_test.cc and
// answers.txt.
#include "apps/running_program.h"

namespace qkv::test {
namespace {

const std::string kGenerate = "generate --model @tests/golden/language/gpt2 ";

// A text as it grows, and the same from a line of standard input, where line breaks become spaces.
TEST(Generate, ATextGrowsAndLinesAreAnswered) {
  const std::string grown = text_of(kGenerate + "--max-new-tokens 30 'The cat sat'");
  std::string line = grown.substr(0, grown.size() - 1);
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  EXPECT_EQ(text_of(kGenerate + "--max-new-tokens 30", {.input = "The cat sat\nx\n"}).substr(0, line.size() + 1),
            line + "\n");
  const Json answer = Json::parse(text_of(kGenerate + "--json --max-new-tokens 30 'The cat sat'"));
  EXPECT_EQ(answer.at("texts").at(0).at("text"), grown.substr(0, grown.size() - 1));
  EXPECT_EQ(text_of(kGenerate), "");
  for (const std::string options : {"--threads 5 ", "--chunk 1 ", "--chunk 7 --threads 2 "}) {
    EXPECT_EQ(text_of(kGenerate + options + "--max-new-tokens 30 'The cat sat'"), grown) << options;
  }
}

TEST(Generate, TheModelThatComesWithQkvSaysWhatItLearnedFrom) {
  const std::string origin = "The model that comes with qkv was trained only on the World English Bible: ";
  const std::string prompt = " --max-new-tokens 5 'In the beginning'";
  EXPECT_EQ(text_of("generate" + prompt), text_of("generate --model @models/verses" + prompt));
  expect_words(shown_on_terminal("generate" + prompt, {}, 80, &Surroundings::errors), origin);
  const std::string named = "generate --model @models/verses" + prompt;
  EXPECT_EQ(shown_on_terminal(named, {}, 80, &Surroundings::errors), "");
  EXPECT_EQ(succeed(named + " '\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82'").err,
            "qkv generate: line 2: the model was not trained on these characters\n");
}

// What is explained is what `generate` writes, and explains.
TEST(Generate, ExplainWritesBehindAText) {
  const Json theirs = Json::parse(text_of("generate --model @models/verses --explain --json --max-new-tokens 6 Moses"));
  const Json ours = Json::parse(text_of("explain --model @models/verses --text Moses --write 6 --json --weights"));
  for (const char* part : {"continuation", "sequences", "fingerprint"}) EXPECT_EQ(ours.at(part), theirs.at(part));
  EXPECT_EQ(ours.at("continuation").at("target_words").size(), 6u);
  EXPECT_TRUE(ours.at("attentions").at(0).at("all").at(0).contains("weights"));
  const std::string text = text_of("generate --model @models/verses --explain --max-new-tokens 4 'In the beginning'");
  for (const char* part :
       {"\n    4 of  ", "\n    7 of  ", " the (5) "}) {  // behind an end token and three of the prompt
    EXPECT_TRUE(holds(text, part)) << text;
  }
}

// A text in three parts, with a file of its own; and drafts.
TEST(Generate, SessionsGoOnAndDraftsChangeNothing) {
  const TemporaryFolder folder;
  const std::string session = "--session " + (folder / "text") + " ";
  const std::string whole = text_of(kGenerate + "--max-new-tokens 30 'The cat sat'");
  std::string parts = text_of(kGenerate + session + "--max-new-tokens 7 'The cat sat'");
  for (const std::string options : {"--max-new-tokens 11", "--max-new-tokens 12 --draft lookup"}) {
    parts.pop_back();  // the end of the line
    parts += text_of(kGenerate + session + options);
  }
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(text_of(kGenerate + "--draft lookup --max-new-tokens 30 'The cat sat'"), whole);
  const Surroundings around{.input = "The cat sat on the mat.\nA cat\nThe cat sat on the mat.\n"};
  for (const std::string options : {"--json --max-new-tokens 40 ", "--json --max-new-tokens 40 --seed 4 "}) {
    EXPECT_EQ(text_of(kGenerate + options + "--draft lookup", around), text_of(kGenerate + options, around));
  }
  folder.put("text", slurp(folder / "text").substr(0, 900));
  const Outcome outcome = run_program(kGenerate + session);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
  EXPECT_TRUE(holds(outcome.err, folder / "text")) << outcome.err;
}

// Without a folder: the same text and the same heads as with one.
TEST(Generate, AGgufFileIsAModel) {
  const TemporaryFolder folder;
  const std::string file = "@tests/golden/gguf/llama.gguf";
  text_of("convert " + file + " " + (folder / "model"));
  for (const std::string& rest :
       {std::string(" --json --max-new-tokens 9 'The cat'"), " --score " + folder.put("a.txt", "The cat")}) {
    EXPECT_EQ(text_of("generate --model " + file + rest), text_of("generate --model " + (folder / "model") + rest));
  }
  EXPECT_EQ(text_of("explain --json --text 'The cat' --model " + file),
            text_of("explain --json --text 'The cat' --model " + (folder / "model")));
  const std::string copy = folder.put("copy.gguf", slurp(QKV_TEST_DATA "/golden/gguf/llama.gguf"));
  const Outcome outcome = run_program("generate --explain --html " + copy + " a --model " + copy);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(holds(outcome.err, "--html")) << outcome.err;
}

// One that comes later, alone or with others, has the same answer.
TEST(Generate, LinesAreAnsweredAsTheyCome) {
  const std::string wanted = text_of(kGenerate + "--max-new-tokens 9", {.input = "The cat sat\nx\n"});
  RunningProgram program(kGenerate + "--max-new-tokens 9");
  program.write("The cat sat\n");
  const std::string first = program.read_line();
  program.write("x\nThe cat sat\n");
  EXPECT_EQ(first + "\n" + program.read_line() + "\n", wanted);
  EXPECT_EQ(program.read_line(), first);
}

TEST(Generate, LinesBeforeOneThatIsRefusedAreAnswered) {
  const Outcome outcome = run_program(kGenerate + "--max-new-tokens 3", {.input = "x\n\nx\n"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(lines_of(outcome.out).size(), 1u);
  EXPECT_EQ(outcome.err, "qkv generate: line 2 has no tokens; a prompt needs one\n");
  const std::string much(600, 'z');
  EXPECT_TRUE(holds(run_program(kGenerate + much).err, "the model has 256 positions, one of them for a new token"));
}

// The same as the text of the template without special tokens of its own; a template of no known kind is refused.
TEST(Generate, AMessageIsPutIntoTheTemplate) {
  const std::string chat = text_of(kGenerate + "--json --max-new-tokens 8 --chat 'What is a cat?'");
  const std::string raw = "<|im_start|>user\nWhat is a cat?<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(text_of(kGenerate + "--json --max-new-tokens 8 --raw '" + raw + "'"), chat);
  EXPECT_NE(text_of(kGenerate + "--json --max-new-tokens 8 'What is a cat?'"), chat);
  EXPECT_EQ(text_of(kGenerate + "--explain --json --max-new-tokens 2 --raw '" + raw + "'"),
            text_of(kGenerate + "--explain --json --max-new-tokens 2 --chat 'What is a cat?'"));
  const TemporaryFolder folder;
  std::filesystem::copy(QKV_TEST_DATA "/golden/language/gpt2", folder / "model");
  folder.put("model/tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  const Outcome outcome = run_program("generate --model " + (folder / "model") + " --chat a");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
  EXPECT_TRUE(holds(outcome.err, "the chat template is not ChatML, Llama, Mistral or Gemma")) << outcome.err;
}

}  // namespace
}  // namespace qkv::test
