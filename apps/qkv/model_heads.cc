// qkv explain --text: declares its options, runs the model and prints its heads.
#include "model_heads.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "options.h"
#include "program.h"
#include "qkv/explain/explain_translation.h"
#include "signals.h"

namespace qkv::app {
namespace {

// Not by CLI11's excludes(), which would list every other option in the help.
void refuse_others(const CLI::App& command) {
  constexpr std::array<std::string_view, 12> kOwn = {"--model", "--text",    "--attention", "--layer",
                                                     "--head",  "--token",   "--json",      "--weights",
                                                     "--width", "--threads", "--full",      "--help"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && std::find(kOwn.begin(), kOwn.end(), name) == kOwn.end()) {
      throw UsageError(name, "cannot be combined with --text");
    }
  }
}

std::string show(const HeadLook& look, const ModelOptions& options, bool json, const TextStyle& style) {
  std::optional<std::int64_t> token;
  if (options.token) token = find_token(look.tokens, *options.token);
  return json ? to_json(look, token) + "\n" : to_text(look, token, style);
}

std::string explain_translation(const ModelOptions& options, bool json, const TextStyle& style) {
  const Translator translator = Translator::load(options.folder);
  const TranslateOptions run{.stop = interruption()};
  if (!options.layer) {
    const TranslationSurvey survey =
        survey_translation(translator, options.text, {.keep_weights = options.weights, .translate = run});
    return json ? to_json(survey) + "\n" : to_text(survey, style);
  }
  if (!options.attention) throw UsageError("--attention", "must be given: encoder, decoder or encoder-decoder");
  const HeadLook look = look_at_translation(translator, options.text, *options.attention,
                                            {.layer = *options.layer, .head = *options.head}, run);
  return show(look, options, json, style);
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  CLI::Option* model = add_file(command, "--model", options.folder,
                                "folder of the model whose heads --text shows: config.json, model.safetensors, "
                                "tokenizer.json (default: English to Spanish, the model that comes with qkv)");
  CLI::Option* text =
      command.add_option("--text", options.text, "show what a model's heads attend to in this text")->type_name("TEXT");
  model->type_name("FOLDER")->needs(text);
  const auto number = [&](const char* name, std::optional<std::int64_t>& value, const char* help) {
    return command.add_option(name, value, help)
        ->check(whole_number(0, std::numeric_limits<std::int32_t>::max()))
        ->type_name("N")
        ->needs(text);
  };
  CLI::Option* layer = number("--layer", options.layer, "with --text: show one head in full, of this layer (from 0)");
  CLI::Option* head = number("--head", options.head, "the head of that layer, from 0");
  layer->needs(head);
  head->needs(layer);
  static const std::vector<std::pair<std::string, AttentionPlace>> places = {
      {"encoder", AttentionPlace::encoder},
      {"decoder", AttentionPlace::decoder},
      {"encoder-decoder", AttentionPlace::encoder_decoder}};
  add_choice(command, "--attention", options.attention, places, "of a translation model: the attention of that head")
      ->needs(layer);
  command
      .add_option("--token", options.token,
                  "with --layer and --head: show the computation of this token step by step; its text (the first one) "
                  "or its number")
      ->type_name("TOKEN")
      ->needs(layer);
  command
      .add_flag("--weights", options.weights,
                "with --text and --json, without --layer: the weights of every head too, layers x heads x tokens^2 "
                "numbers")
      ->needs(text)
      ->needs("--json")
      ->excludes(layer);
}

std::string explain_model(const CLI::App& command, const ModelOptions& options, bool json, const TextStyle& style) {
  refuse_others(command);
  if (Marian::is_in(options.folder)) return explain_translation(options, json, style);
  if (options.attention) throw UsageError("--attention", "needs a translation model");
  const std::int64_t vocab = Bert::check(options.folder).vocab;
  const Encoding text = Tokenizer::load(options.folder + "/tokenizer.json", vocab).encode(options.text);
  const Bert model = Bert::load(options.folder);
  const BertOptions run{.stop = interruption()};
  if (!options.layer) {
    const HeadSurvey survey = survey_heads(model, text, {.keep_weights = options.weights, .run = run});
    return json ? to_json(survey) + "\n" : to_text(survey, style);
  }
  return show(look_at_head(model, text, {.layer = *options.layer, .head = *options.head}, run), options, json, style);
}

}  // namespace qkv::app
