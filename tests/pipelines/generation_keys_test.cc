// The settings of a generation_config.json against those of transformers' own class
// (tests/golden/translate/generation_keys.py), and what reading them does with values.
#include "pipelines/generation_keys.h"

#include "io/files_for_test.h"
#include "io/json_edits_for_test.h"
#include "pipelines/pipeline_folder.h"
#include "pipelines/refusals.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

const Json kTheirs = Json::parse(test::slurp(QKV_TEST_DATA "/golden/translate/generation_keys.json"));

// A file of these settings, with the tokens that have to be there.
struct SettingsFolder : test::TemporaryFolder {
  void read(const std::string& name, const Json& value) const {
    Json settings{{"decoder_start_token_id", 0}, {"eos_token_id", 1}};
    settings[name] = value;
    put("generation_config.json", settings.dump());
    read_generation(*this / "", 10);
  }
};

TEST(GenerationKeys, AreThoseOfTransformersAndOneOfOurs) {
  std::map<std::string, Json> ours;
  for (const GenerationKey& key : generation_keys()) ours[key.name] = nullptr;
  EXPECT_EQ(ours.size(), generation_keys().size()) << "a key stands there twice";
  EXPECT_EQ(ours.erase("unsure_below"), 1U);
  for (const auto& [name, value] : kTheirs.at("keys").items()) EXPECT_EQ(ours.erase(name), 1U) << name;
  for (const auto& [name, value] : ours) ADD_FAILURE() << name << " is no setting of transformers";
}

TEST(GenerationKeys, AtTheirDefaultsAreRead) {
  const SettingsFolder folder;
  for (const auto& [name, value] : kTheirs.at("keys").items()) {
    if (name == "decoder_start_token_id" || name == "eos_token_id") continue;  // without defaults
    EXPECT_NO_THROW(folder.read(name, value)) << name;
    EXPECT_NO_THROW(folder.read(name, nullptr)) << name;
  }
}

// None of them takes an object, so that what is read refuses it.
TEST(GenerationKeys, AreReadIfTheyAreObeyedAndPassedOverIfTheyAreHarmless) {
  const SettingsFolder folder;
  for (const GenerationKey& key : generation_keys()) {
    if (key.answer == KeyAnswer::refused || key.answer == KeyAnswer::drawn) continue;
    if (key.answer == KeyAnswer::harmless || key.answer == KeyAnswer::sampled) {
      EXPECT_NO_THROW(folder.read(key.name, Json::object())) << key.name;
      continue;
    }
    const std::string message = test::message_of<FormatError>([&] { folder.read(key.name, Json::object()); });
    EXPECT_NE(message.find(std::string("generation_config.json: ") + key.name), std::string::npos) << message;
  }
}

TEST(GenerationKeys, AreRefusedWhereTheyWouldChangeWhatIsGenerated) {
  Json changing = Json::parse(R"({
      "assistant_ensemble_weight": 0.5, "begin_suppress_tokens": [3], "constraints": [[3]], "diversity_penalty": 0.5,
      "do_sample": true, "dola_layers": "high", "encoder_no_repeat_ngram_size": 3, "encoder_repetition_penalty": 1.2,
      "exponential_decay_length_penalty": [5, 1.1], "force_words_ids": [[3]], "guidance_scale": 1.5, "max_time": 0.5,
      "num_beam_groups": 2, "penalty_alpha": 0.6, "remove_invalid_values": true, "sequence_bias": [[[3], 1.5]],
      "stop_strings": ["."], "suppress_tokens": [3], "token_healing": true, "watermarking_config": {"bias": 2.5}})");
  const SettingsFolder folder;
  for (const GenerationKey& key : generation_keys()) {
    if (key.answer != KeyAnswer::refused && key.answer != KeyAnswer::drawn) continue;
    ASSERT_TRUE(changing.contains(key.name)) << key.name;
    const std::string message = test::message_of<FormatError>([&] { folder.read(key.name, changing[key.name]); });
    EXPECT_NE(message.find(std::string(key.name) + " is not supported; "), std::string::npos) << message;
    EXPECT_NE(message.find(std::string("set it to ") + key.off), std::string::npos) << message;
    EXPECT_NO_THROW(folder.read(key.name, Json::parse(key.off))) << key.name;
    changing.erase(key.name);
  }
  EXPECT_TRUE(changing.empty()) << changing;
}

TextGeneration read_text(const Json& settings) {
  const test::TemporaryFolder folder;
  folder.put("generation_config.json", settings.dump());
  return read_text_generation(folder / "", 10);
}

// As the folders of real models have them.
TEST(GenerationKeys, OfLanguageModels) {
  const TextGeneration none = read_text({{"bos_token_id", 1}});
  EXPECT_TRUE(none.options.ends.empty());
  EXPECT_FALSE(none.options.sampling || none.max_length || none.max_new_tokens);
  const TextGeneration greedy = read_text({{"do_sample", false}, {"eos_token_id", 3}, {"top_k", 5}, {"max_length", 9}});
  EXPECT_EQ(greedy.options.ends, std::vector<std::int32_t>{3});
  EXPECT_FALSE(greedy.options.sampling);
  EXPECT_EQ(greedy.max_length, 9);
  const TextGeneration llama = read_text({{"do_sample", true},
                                          {"temperature", 0.6},
                                          {"top_p", 0.9},
                                          {"eos_token_id", {3, 4}},
                                          {"min_p", 0.05},
                                          {"max_new_tokens", 7},
                                          {"min_length", 2},
                                          {"min_new_tokens", 1},
                                          {"repetition_penalty", 1.1},
                                          {"stop_strings", {"\n\n", "."}}});
  EXPECT_EQ(llama.options.ends, (std::vector<std::int32_t>{3, 4}));
  ASSERT_TRUE(llama.options.sampling);
  EXPECT_EQ(llama.options.sampling->temperature, 0.6);
  EXPECT_EQ(llama.options.sampling->top_k, 50);  // as transformers has it
  EXPECT_EQ(llama.options.sampling->top_p, 0.9);
  EXPECT_EQ(llama.options.sampling->min_p, 0.05);
  EXPECT_EQ(llama.options.repetition_penalty, 1.1);
  EXPECT_EQ(llama.max_new_tokens, 7);
  EXPECT_EQ(llama.min_length + llama.min_new_tokens, 3);
  EXPECT_EQ(llama.stop_strings, (std::vector<std::string>{"\n\n", "."}));
  EXPECT_EQ(read_text({{"stop_strings", "x"}}).stop_strings, std::vector<std::string>{"x"});
}

TEST(GenerationKeys, OfLanguageModelsAreRefused) {
  for (const test::JsonEdit& edit : test::json_edits(R"(
/eos_token_id = 10 => eos_token_id is 10, must be 0 to 9
/temperature = 0 => temperature must be 1e-06 to 1000000
/top_p = 1.5 => top_p must be 1e-06 to 1
/min_p = -1 => min_p must be 0 to 1
/num_beams = 2 => num_beams must be 1 when do_sample is true
/stop_strings = [""] => stop_strings[0] must not be empty
/suppress_tokens = [3] => suppress_tokens is not supported; remove it or set it to null
/forced_bos_token_id = 3 => forced_bos_token_id is not supported; remove it
)")) {
    const std::string message =
        test::message_of<FormatError>([&] { read_text(Json::parse(test::edited({{"do_sample", true}}, edit))); });
    EXPECT_EQ(message.substr(message.find("config.json: ") + 13), edit.message);
  }
}

}  // namespace
}  // namespace qkv
