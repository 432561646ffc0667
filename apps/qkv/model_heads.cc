// qkv explain --text: declares its options, runs the model and prints its heads.
#include "model_heads.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "qkv/explain/explain_translation.h"
#include "signals.h"

namespace qkv::app {
namespace {

// Not by a rule of --text, which would list every other option in the help.
void refuse_others(const Command& command) {
  constexpr std::array<std::string_view, 12> kOwn = {"--model", "--text",    "--attention", "--layer",
                                                     "--head",  "--token",   "--json",      "--weights",
                                                     "--width", "--threads", "--full",      "--help"};
  for (const std::string& name : command.given()) {
    if (std::find(kOwn.begin(), kOwn.end(), name) == kOwn.end()) {
      throw UsageError(name, "cannot be combined with --text");
    }
  }
}

std::string show(const HeadTrace& trace, const ModelOptions& options, bool json, const TextStyle& style) {
  std::optional<std::int64_t> token;
  if (options.token) token = find_token(trace.tokens, *options.token);
  return json ? to_json(trace, token) + "\n" : to_text(trace, token, style);
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
  const HeadTrace trace = trace_translation(translator, options.text, *options.attention,
                                            {.layer = *options.layer, .head = *options.head}, run);
  return show(trace, options, json, style);
}

}  // namespace

std::vector<Option> model_options(ModelOptions& options) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const Names<AttentionSite> sites = {{"encoder", AttentionSite::encoder},
                                      {"decoder", AttentionSite::decoder},
                                      {"encoder-decoder", AttentionSite::encoder_decoder}};
  return {{"--model", file(options.folder, "FOLDER"),
           "folder of the model whose heads --text shows: config.json, model.safetensors, tokenizer.json (default: "
           "English to Spanish, the model that comes with qkv)",
           needs("--text")},
          {"--text", text(options.text, "TEXT"), "show what a model's heads attend to in this text"},
          {"--layer", whole(options.layer, 0, kLargest), "with --text: show one head in full, of this layer (from 0)",
           needs("--text", "--head")},
          {"--head", whole(options.head, 0, kLargest), "the head of that layer, from 0", needs("--text", "--layer")},
          {"--attention", choice(options.attention, sites), "of a translation model: the attention of that head",
           needs("--layer")},
          {"--token", text(options.token, "TOKEN"),
           "with --layer and --head: show the computation of this token step by step; its text (the first one) or its "
           "number",
           needs("--layer")},
          {"--weights", flag(options.weights),
           "with --text and --json, without --layer: the weights of every head too, layers x heads x tokens^2 numbers",
           needs("--text", "--json") & excludes("--layer")}};
}

std::string explain_model(const Command& command, const ModelOptions& options, bool json, const TextStyle& style) {
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
  return show(trace_head(model, text, {.layer = *options.layer, .head = *options.head}, run), options, json, style);
}

}  // namespace qkv::app
