#include "qkv/model_heads.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "qkv/explain_model.h"
#include "qkv/options.h"
#include "qkv/program.h"

namespace qkv::app {

void add_model_options(CLI::App& command, ModelOptions& options) {
  const auto others = command.get_options();
  CLI::Option* model = add_file(command, "--model", options.folder,
                                "what the heads of this model look at in --text; a folder with config.json, "
                                "model.safetensors and tokenizer.json");
  CLI::Option* text = command.add_option("--text", options.text, "with --model: the text")->type_name("TEXT");
  model->needs(text);
  text->needs(model);
  for (CLI::Option* other : others) {
    constexpr std::array<std::string_view, 4> kCompatible = {"--help", "--version", "--json", "--threads"};
    const bool compatible = std::any_of(kCompatible.begin(), kCompatible.end(),
                                        [&](std::string_view name) { return other->check_name(std::string(name)); });
    if (!compatible) model->excludes(other);
  }
  const auto number = [&](const char* name, std::optional<std::int64_t>& value, const char* help) {
    return command.add_option(name, value, help)
        ->check(whole_number(0, std::numeric_limits<std::int32_t>::max()))
        ->type_name("N")
        ->needs(model);
  };
  CLI::Option* layer = number("--layer", options.layer, "with --model: one head in full; layers count from 0");
  CLI::Option* head = number("--head", options.head, "the head of that layer, from 0");
  layer->needs(head);
  head->needs(layer);
  command
      .add_option("--token", options.token,
                  "with --layer and --head: what this token goes through step by step; the first that reads so, or its "
                  "number")
      ->type_name("TOKEN")
      ->needs(layer);
}

std::string explain_model(const ModelOptions& options, bool json, const TextStyle& style) {
  const Encoding text = Tokenizer::load(options.folder + "/tokenizer.json").encode(options.text);
  const Bert model = Bert::load(options.folder);
  const BertOptions run{.stop = interruption()};
  if (!options.layer) {
    const HeadSurvey survey = survey_heads(model, text, run);
    return json ? to_json(survey) + "\n" : to_text(survey, style);
  }
  std::optional<std::int64_t> token;
  if (options.token) token = find_token(text.tokens, *options.token);
  const HeadLook look = look_at_head(model, text, {.layer = *options.layer, .head = *options.head}, run);
  return json ? to_json(look, token) + "\n" : to_text(look, token, style);
}

}  // namespace qkv::app
