// Chats: what a user's message becomes by the templates of the known kinds, beside transformers; templates refused.
#include "pipelines/chat_template.h"

#include "models/models_for_test.h"
#include "qkv/pipelines/generator.h"

namespace qkv::test {
namespace {

using Ids = std::vector<std::int32_t>;

const nlohmann::json& golden_chats() {
  static const auto chats = nlohmann::json::parse(slurp(golden_path("language/chat.json")));
  return chats;
}

TEST(ChatTemplate, MessagesBecomeWhatTransformersMakesOfThem) {
  for (const auto& [name, chat] : golden_chats().at("known").items()) {
    SCOPED_TRACE(name);
    const auto found = parse_chat_template(chat.at("template").get<std::string>(), "<|endoftext|>", "</s>");
    ASSERT_TRUE(found);
    for (std::size_t i = 0; i < chat.at("texts").size(); ++i) {
      EXPECT_EQ(found->render(golden_chats().at("messages")[i].get<std::string>()),
                chat.at("texts")[i].get<std::string>());
    }
  }
}

// A conversation goes on with what transformers makes of all of it, however the answer ended.
TEST(ChatTemplate, ConversationsGoOnAsTransformersHasThem) {
  const std::string answer = golden_chats().at("answer"), next = golden_chats().at("next");
  int known = 0;
  for (const auto& [name, chat] : golden_chats().at("known").items()) {
    SCOPED_TRACE(name);
    const auto found = parse_chat_template(chat.at("template").get<std::string>(), "<|endoftext|>", "</s>");
    ASSERT_TRUE(found);
    const std::string begun = found->render(golden_chats().at("messages")[0].get<std::string>());
    if (!chat.at("goes_on").get<bool>()) {
      EXPECT_NE(message_of<FormatError>([&] {
                  found->render_next(begun + answer, next);
                }).find("does not show how a chat continues"),
                std::string::npos);
      continue;
    }
    ++known;
    const std::string wanted = chat.at("conversation");
    const std::string said = wanted.substr(0, wanted.find(answer) + answer.size());
    EXPECT_TRUE(said.starts_with(begun));
    const auto& [blanks, mark, space] = std::tie(found->blanks, found->mark, found->space);
    for (const std::string& ended : {said, said + blanks, said + blanks + mark, said + blanks + mark + space}) {
      EXPECT_EQ(ended + found->render_next(ended, next), wanted);
    }
    EXPECT_NE(message_of<FormatError>([&] { found->render_next("x" + said, next); }).find("is not a chat"),
              std::string::npos);
  }
  EXPECT_EQ(known, 15);
}

// Of SentencePiece, which decodes a blank behind each special token.
TEST(ChatTemplate, ConversationsInPiecesGoOnAsTransformersHasThem) {
  const nlohmann::json& pieces = golden_chats().at("pieces");
  const Tokenizer tokenizer = Tokenizer::parse(pieces.at("tokenizer").dump(), "tokenizer.json");
  for (const auto& [name, chat] : pieces.at("chats").items()) {
    SCOPED_TRACE(name);
    const auto found = parse_chat_template(chat.at("template").get<std::string>(), "<s>", "</s>");
    ASSERT_TRUE(found);
    const std::string text = tokenizer.decode(chat.at("so_far").get<Ids>(), {.skip_special_tokens = false});
    EXPECT_EQ(text, chat.at("text").get<std::string>());
    const std::string next = found->render_next(text, golden_chats().at("next").get<std::string>());
    EXPECT_EQ(tokenizer.encode(next, {.add_special_tokens = false}).ids, chat.at("rest").get<Ids>());
  }
}

TEST(ChatTemplate, OthersAreNotRecognised) {
  for (const auto& [name, source] : golden_chats().at("refused").items()) {
    EXPECT_FALSE(parse_chat_template(source.get<std::string>(), "", "")) << name;
  }
}

// A megabyte of tags, of braces or of an open string is read at once.
TEST(ChatTemplate, LongOnesAreReadInOnePass) {
  for (const std::string part : {"{{}}", "{", "{{'<|im_start|>'", "['content'] | trim"}) {
    std::string source;
    while (source.size() < std::size_t{1} << 20) source += part;
    EXPECT_FALSE(parse_chat_template(source, "", ""));
  }
}

// Cut off anywhere, a template is another one or none; nothing is read behind its end.
TEST(ChatTemplate, CutOffAnywhere) {
  for (const auto& [name, chat] : golden_chats().at("known").items()) {
    const std::string source = chat.at("template");
    for (std::size_t size = 0; size < source.size(); ++size) {
      const std::unique_ptr<char[]> part(new char[size]);
      std::copy_n(source.data(), size, part.get());
      parse_chat_template({part.get(), size}, "", "");
    }
  }
  EXPECT_FALSE(parse_chat_template("<|im_start|>{", "", ""));
}

TEST(ChatTemplate, WhiteSpaceAroundMessages) {
  ChatTemplate chat{.before = "<", .behind = ">", .trims = true};
  EXPECT_EQ(chat.render(" \n\xc2\xa0x y\xe3\x80\x80\t"), "<x y>");
  EXPECT_EQ(chat.render(" \xe2\x80\x83"), "<>");
  chat.trims = false;
  EXPECT_EQ(chat.render(" x "), "< x >");
}

// From tokenizer_config.json, its two forms, and from chat_template.jinja, which counts more; the ids that are read.
TEST(ChatTemplate, FoldersHaveThemInTheirPlaces) {
  const nlohmann::json& known = golden_chats().at("known");
  const auto expect = [&](const GoldenCopy& folder, const std::string& name) {
    const Generator generator = Generator::load(folder / "");
    for (std::size_t i = 0; i < golden_chats().at("messages").size(); ++i) {
      const std::string message = golden_chats().at("messages")[i];
      const Ids wanted = known.at(name).at("ids")[i];
      EXPECT_EQ(generator.prompt_ids(message, PromptForm::chat), wanted);
      EXPECT_EQ(generator.prompt_ids(known.at(name).at("texts")[i], PromptForm::raw), wanted);
      const GeneratedText written = generator.generate(message, {.form = PromptForm::chat, .max_new_tokens = 3});
      EXPECT_EQ(written.ids,
                generator.generate_ids(std::vector<Ids>{wanted}, {.max_new_tokens = 3}).front().front().ids);
    }
  };
  const GoldenCopy folder("language/gpt2");
  nlohmann::json config{{"bos_token", "<|endoftext|>"}, {"chat_template", known.at("llama3").at("template")}};
  folder.put("tokenizer_config.json", config.dump());
  expect(folder, "llama3");
  config = {{"bos_token", {{"content", "<|endoftext|>"}}},
            {"chat_template",
             {{{"name", "tool_use"}, {"template", "x"}},
              {{"name", "default"}, {"template", known.at("mistral").at("template")}}}}};
  folder.put("tokenizer_config.json", config.dump());
  expect(folder, "mistral");
  folder.put("chat_template.jinja", known.at("gemma").at("template").get<std::string>());
  expect(folder, "gemma");
}

TEST(ChatTemplate, FoldersWithoutOneAreRefusedWhenAsked) {
  const GoldenCopy folder("language/gpt2");
  const auto refusal = [&] {
    const Generator generator = Generator::load(folder / "");
    generator.generate("x", {.max_new_tokens = 1});
    const std::string message =
        message_of<FormatError>([&] { generator.generate("x", {.form = PromptForm::chat, .max_new_tokens = 1}); });
    return message.substr(message.rfind('/') + 1);
  };
  std::filesystem::remove(folder / "tokenizer_config.json");
  EXPECT_EQ(refusal(), "tokenizer_config.json: chat_template is missing: the model is not made for chats");
  folder.put("tokenizer_config.json", "{\"chat_template\": 3}");
  EXPECT_EQ(refusal(), "tokenizer_config.json: chat_template must be a string, is number");
  folder.put("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  EXPECT_EQ(refusal(),
            "tokenizer_config.json: the chat template is not ChatML, Llama, Mistral or Gemma; format the message "
            "yourself and give it with --raw (PromptForm::raw)");
}

}  // namespace
}  // namespace qkv::test
