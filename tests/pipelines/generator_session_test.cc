// Sessions: texts that go on have the bits of texts that never stopped; whatever breaks a file is refused.
#include "pipelines/generator_session.h"

#include "models/models_for_test.h"
#include "qkv/pipelines/fingerprint.h"
#include "qkv/pipelines/generator.h"

namespace qkv::test {
namespace {

using Ids = std::vector<std::int32_t>;

Generator generator_of(const std::string& name) { return Generator::load(golden_path("language/" + name)); }

GeneratedText text_behind(const Generator& generator, const Ids& prompt, const GeneratorOptions& options) {
  return generator.generate_ids(std::vector<Ids>{prompt}, options).front().front();
}

// A prompt's text in parts, each from the file of the one before, beside the text at once.
TEST(GeneratorSession, TextsThatGoOnHaveTheBitsOfTextsThatNeverStopped) {
  for (const std::string name : {"gpt2", "llama_dynamic", "mistral", "qwen2_window", "gemma3"}) {
    for (const bool samples : {false, true}) {
      SCOPED_TRACE(name + (samples ? ", sampled" : ""));
      const Generator generator = generator_of(name);
      const TemporaryFolder folder;
      GeneratorOptions options{.repetition_penalty = 1.2, .cache_type = samples ? Dtype::bf16 : Dtype::f32};
      if (samples) options.sampling = Sampling{.temperature = 1.5, .top_p = 0.95, .seed = 3};
      for (const Ids& prompt : {Ids{7}, Ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8}}) {
        options.session.clear();
        options.max_new_tokens = 40;
        const GeneratedText wanted = text_behind(generator, prompt, options);
        options.session = folder / (std::to_string(prompt.size()));
        Ids ids;
        GeneratedText text;
        for (const std::int64_t some : {1, 20, 2, 17}) {
          options.max_new_tokens = some;
          options.chunk = some;
          options.drafts = some == 20 ? Drafts::lookup : Drafts::none;
          text = text_behind(generator, ids.empty() ? prompt : Ids{}, options);
          ids.insert(ids.end(), text.ids.begin(), text.ids.end());
        }
        EXPECT_EQ(ids, wanted.ids);
        EXPECT_EQ(std::memcmp(&text.log_probability, &wanted.log_probability, sizeof(double)), 0);
        EXPECT_EQ(std::memcmp(&text.score, &wanted.score, sizeof(double)), 0);
      }
    }
  }
}

// A prompt behind a text, beside all of it as one prompt: the tokens before were read one by one, which rounds
// otherwise.
TEST(GeneratorSession, PromptsFollowWhatWasWritten) {
  const Generator generator = generator_of("llama");
  const TemporaryFolder folder;
  GeneratorOptions options{.max_new_tokens = 6, .session = folder / "text"};
  Ids all{3, 1, 4};
  const auto add = [&](const Ids& ids) { all.insert(all.end(), ids.begin(), ids.end()); };
  add(text_behind(generator, all, options).ids);
  for (const Ids& prompt : {Ids{1, 5, 9, 2}, Ids{6}, Ids{5, 3}}) {
    add(prompt);
    const GeneratedText text = text_behind(generator, prompt, options);
    const GeneratedText wanted = text_behind(generator, all, {.max_new_tokens = 6});
    EXPECT_EQ(text.ids, wanted.ids);
    EXPECT_NEAR(text.log_probability, wanted.log_probability, 1e-4);
    add(text.ids);
  }
  const Generator texts = generator_of("gpt2");
  options.session = folder / "other";
  Ids ids = texts.generate("The cat", options).ids;
  for (const std::int32_t id : texts.generate("", options).ids) ids.push_back(id);
  EXPECT_EQ(ids, texts.generate("The cat", {.max_new_tokens = 12}).ids);
}

// A session of 3 tokens and 4 that were written, as a file, and a reader of what is made of it.
struct SmallSession {
  Generator generator = generator_of("gpt2");
  TemporaryFolder folder{};
  std::string path = folder / "session", fingerprint = qkv::fingerprint(generator.model());

  SmallSession() { text_behind(generator, {3, 1, 4}, {.max_new_tokens = 4, .session = path}); }

  std::string refusal_of(const SafeTensors& file) const {
    const std::string message = message_of<FormatError>([&] { session_of(file, "a", generator.model(), fingerprint); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  // With a digest that fits.
  std::string refusal_of(const std::function<void(SafeTensors&)>& change) const {
    SafeTensors file = read_safetensors(path);
    change(file);
    file.metadata["digest"] = digest_of_session(file);
    return refusal_of(file);
  }
};

TEST(GeneratorSession, EveryCountAndLengthIsChecked) {
  const SmallSession small;
  const SafeTensors whole = read_safetensors(small.path);
  const GeneratorSession read = session_of(whole, "a", small.generator.model(), small.fingerprint);
  EXPECT_EQ(read.ids.size(), 7u);
  EXPECT_EQ(read.written, 4);
  const SafeTensors again = session_file(read, small.fingerprint);
  EXPECT_EQ(again.metadata, whole.metadata);

  const auto ids = [](const std::vector<std::int32_t>& all) {
    return [all](SafeTensors& file) { file.tensors["ids"] = Tensor::of<std::int32_t>({std::ssize(all)}, all); };
  };
  const auto word = [](const std::string& name, const std::string& value) {
    return [=](SafeTensors& file) { file.metadata[name] = value; };
  };
  const auto tensor = [](const std::string& name, const Tensor& value) {
    return [=](SafeTensors& file) { file.tensors[name] = value; };
  };
  const std::pair<std::string, std::function<void(SafeTensors&)>> rows[] = {
      {"is not a session: its format is not \"qkv session 1\"", word("format", "qkv session 2")},
      {"is not a session: \"format\" is missing", [](SafeTensors& file) { file.metadata.erase("format"); }},
      {"is of model qkv1; this one is " + small.fingerprint, word("model", "qkv1")},
      {"is not a session: \"written\" is missing", [](SafeTensors& file) { file.metadata.erase("written"); }},
      {"has \"-1\" for written, which must be a number", word("written", "-1")},
      {"has \"\" for written, which must be a number", word("written", "")},
      {"has \"99999999999999999999\" for written, which must be a number", word("written", "99999999999999999999")},
      {"has 0 of 7 tokens generated; it must be at least 1 and not all", word("written", "0")},
      {"has 7 of 7 tokens generated; it must be at least 1 and not all", word("written", "7")},
      {"has \"0.5\" for log_probability, which must be a number", word("log_probability", "0.5")},
      {"has a log-probability that is not finite", word("log_probability", "7ff0000000000000")},
      {"lacks ids", [](SafeTensors& file) { file.tensors.erase("ids"); }},
      {"has i64 [2] for ids, which must be i32 [2]", tensor("ids", Tensor::of<std::int64_t>({2}, {1, 2}))},
      {"has i32 [1, 2] for ids, which must be i32 [2]", tensor("ids", Tensor::of<std::int32_t>({1, 2}, {1, 2}))},
      {"has 0 tokens; the model reads 2 to 257", ids({})},
      {"has 1 tokens; the model reads 2 to 257", ids({1})},
      {"has 258 tokens; the model reads 2 to 257", ids(std::vector<std::int32_t>(258))},
      {"has id 300, which is not one of 300", ids({1, 2, 3, 4, 5, 6, 300})},
      {"has id -1, which is not one of 300", ids({-1, 2, 3, 4, 5, 6, 7})},
      {"has f32 [6, 2, 8] for layers.0.keys, which must be f32 [5, 2, 8]", ids({1, 2, 3, 4, 5, 6})},
      {"lacks layers.2.values", [](SafeTensors& file) { file.tensors.erase("layers.2.values"); }},
      {"has f32 [6, 2, 4] for layers.1.values, which must be f32 [6, 2, 8]",
       tensor("layers.1.values", Tensor::zeros({6, 2, 4}))},
      {"has f64 [6, 2, 8] for layers.1.keys, which must be f32 [6, 2, 8]",
       tensor("layers.1.keys", Tensor::zeros({6, 2, 8}, Dtype::f64))},
      {"has an unexpected tensor, layers.3.keys", tensor("layers.3.keys", Tensor::zeros({1}))},
  };
  for (const auto& [message, change] : rows) EXPECT_EQ(small.refusal_of(change), "a: the session " + message);
}

// Any byte of it, and any length; nothing is left half-written, and the file stays as it was.
TEST(GeneratorSession, DamageIsRefused) {
  const SmallSession small;
  const std::string whole = slurp(small.path);
  const auto refused = [&](const std::string& bytes) {
    small.folder.put("session", bytes);
    const std::string message = message_of<FormatError>(
        [&] { text_behind(small.generator, {}, {.max_new_tokens = 2, .session = small.path}); });
    EXPECT_EQ(message.find(small.path), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(slurp(small.path), bytes);
  };
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 150) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    refused(bytes);
    refused(whole.substr(0, at));
  }
  small.folder.put("session", whole);
  const std::string other =
      message_of<FormatError>([&] { text_behind(generator_of("gpt2_scaled"), {}, {.session = small.path}); });
  EXPECT_NE(other.find("is of model " + small.fingerprint + "; this one is qkv"), std::string::npos) << other;
  const Generator bf16 = Generator::load(golden_path("language/gpt2"), WeightStorage::bf16);
  EXPECT_NE(message_of<FormatError>([&] { text_behind(bf16, {}, {.session = small.path}); }).find("-bf16-"),
            std::string::npos);
  EXPECT_NE(message_of<FormatError>([&] {
              text_behind(small.generator, {}, {.session = small.path, .cache_type = Dtype::bf16});
            }).find("has f32 [6, 2, 8] for layers.0.keys, which must be bf16 [6, 2, 8]"),
            std::string::npos);
  EXPECT_EQ(slurp(small.path), whole);
}

// Two messages of a chat: the text is that of the second one behind all before it, written out.
TEST(GeneratorSession, AChatGoesOn) {
  const TemporaryFolder folder;
  const Generator generator = Generator::load(golden_path("language/gpt2"));
  const std::string path = folder / "chat";
  const auto say = [&](const std::string& message, PromptForm form, const std::string& session) {
    return generator.generate(message, {.form = form, .max_new_tokens = 4, .session = session});
  };
  const GeneratedText first = say("What is a cat?", PromptForm::chat, path);
  Ids all = generator.prompt_ids("What is a cat?", PromptForm::chat);
  all.insert(all.end(), first.ids.begin(), first.ids.end());
  const Ids next = generator.prompt_ids("<|im_end|>\n<|im_start|>user\nAnd a dog?<|im_end|>\n<|im_start|>assistant\n",
                                        PromptForm::raw);
  all.insert(all.end(), next.begin(), next.end());
  const GeneratedText second = say("And a dog?", PromptForm::chat, path);
  EXPECT_EQ(second.ids, generator.generate_ids(std::vector<Ids>{all}, {.max_new_tokens = 4}).front().front().ids);
}

TEST(GeneratorSession, WhatDoesNotFitIsRefused) {
  const SmallSession small;
  const auto refused = [&](const std::vector<Ids>& prompts, GeneratorOptions options) {
    return message_of<std::invalid_argument>([&] { small.generator.generate_ids(prompts, options); });
  };
  EXPECT_EQ(refused({{1}, {2}}, {.session = small.path}), "generate: a session takes 1 prompt, not 2");
  EXPECT_EQ(refused({{1}}, {.beams = 2, .session = small.path}), "generate: a session needs 1 beam, not 2");
  EXPECT_EQ(refused({{}}, {.session = small.folder / "none"}), "generate: prompt 1 has no tokens; a prompt needs one");
  EXPECT_EQ(refused({Ids(249)}, {.session = small.path}),
            "generate: prompt 1 has 256 tokens; the model has 256 positions, one of them for a new token");
  EXPECT_EQ(message_of<FormatError>(
                [&] { small.generator.generate("x", {.form = PromptForm::chat, .session = small.path}); }),
            "the session's text is not a chat by this model's template: give the continuation as raw text");
  EXPECT_THROW(small.generator.generate("x", {.session = small.folder / "no/where"}), IoError);
}

}  // namespace
}  // namespace qkv::test
