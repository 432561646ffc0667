// qkv explain --text and --image: declares their options, runs the model and prints its heads.
#include "commands/model_heads.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string_view>

#include "explain/observe/left_out_masks.h"
#include "inputs/lines.h"
#include "notes.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/picture_attention.h"
#include "qkv/explain/token_measures.h"
#include "qkv/explain/translated_text.h"
#include "qkv/explain/written_text.h"
#include "qkv/files.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/generator.h"
#include "signals.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

// Not by a rule of --text, which would list every other option in the help.
void refuse_others(const Command& command) {
  constexpr std::array<std::string_view, 24> kOwn = {
      "--model",        "--text",        "--image", "--attention", "--layer",     "--head",      "--token", "--json",
      "--weights",      "--svg",         "--width", "--threads",   "--full",      "--help",      "--html",  "--compare",
      "--without-head", "--without-key", "--heat",  "--keep",      "--keep-rows", "--precision", "--quiet", "--write"};
  for (const std::string& name : command.given()) {
    if (std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) continue;
    throw UsageError(name,
                     command.given("--image") ? "cannot be combined with --image" : "cannot be combined with --text");
  }
}

std::size_t chosen_site(const std::vector<AttentionSite>& sites, const std::optional<std::string>& name) {
  if (sites.size() == 1) {
    if (name) throw UsageError("--attention", "needs a translation model");
    return 0;
  }
  std::string names;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (name == sites[i].option()) return i;
    names += (i == 0 ? "" : i + 1 < sites.size() ? ", " : " or ") + sites[i].option();
  }
  throw UsageError("--attention", "must be given: " + names);
}

std::int64_t token_at(const std::vector<std::string>& tokens, const std::string& name) {
  return of_option("--token", [&] { return find_token(tokens, name); });
}

template <class Draw>
void write_svg(const ExplanationForm& form, const Draw& draw) {
  if (form.svg.empty()) return;
  write_file(form.svg, draw());
  note_written(form.svg);
}

std::string traced(const Explainable& input, std::size_t site, const ModelOptions& options,
                   const ExplanationForm& form) {
  const HeadIndex index{.layer = *options.layer, .head = *options.head, .site = site};
  const bool is_layer = index.layer < input.attentions().sites[site].layers;
  of_option(is_layer ? "--head" : "--layer", [&] { check_head(input.attentions(), index); });
  HeadTrace trace = trace_head(input, index);
  trace.fingerprint = form.fingerprint;
  std::optional<std::int64_t> token;
  if (options.token) token = token_at(trace.tokens, *options.token);
  write_svg(form, [&] { return to_svg(trace); });
  if (form.report.wanted()) form.report.report.add(trace, token);
  return form.json ? to_json(trace, token) + "\n" : to_text(trace, token, form.style);
}

std::string measured(const Explainable& input, const ModelOptions& options, const ExplanationForm& form) {
  const Attentions& all = input.attentions();
  const std::int64_t token = token_at(all.sequences[measured_sequence(all)].tokens, *options.token);
  TokenMeasures measures = measure_token(input, token);
  measures.fingerprint = form.fingerprint;
  if (form.report.wanted()) {
    if (!measures.heads.empty()) reported_survey(input, {}, {}, form.report, form.fingerprint);
    form.report.report.add(measures);
  }
  return form.json ? to_json(measures) + "\n" : to_text(measures, form.style);
}

std::string explained(const Explainable& input, const ModelOptions& options, const ExplanationForm& form) {
  if (options.layer) return traced(input, chosen_site(input.attentions().sites, options.attention), options, form);
  if (options.token) return measured(input, options, form);
  const HeadSurvey survey = reported_survey(input, {.keep_weights = options.weights || form.style.heat}, options.keep,
                                            form.report, form.fingerprint);
  return form.json ? to_json(survey) + "\n" : to_text(survey, form.style);
}

std::string explained_picture(const ModelOptions& options, const ExplanationForm& form) {
  Vit::read_config(options.folder);  // of another kind of model it says so
  const ImageProcessor processor = ImageProcessor::load(options.folder);
  const Tensor file = read_picture(options.image);
  const WeightStorage storage = options.storage.of_model();
  const Vit model = Vit::load(options.folder, storage);
  const EncodedPicture picture = without_left_out(options.left_out, [&](const LeftOut& some) {
    return EncodedPicture(model, processor.process(file), {.stop = interruption()}, some);
  });
  if (options.layer) return traced(picture, chosen_site(picture.attentions().sites, {}), options, form);
  PictureAttention seen =
      of_option("--token", [&] { return survey_picture(picture, options.token.value_or("class")); });
  seen.fingerprint = form.fingerprint;
  const Tensor view = view_of(picture.pixels(), processor.config());
  const PictureSize patch = model.config().patch;
  const TensorView covered =
      view.view().slice(0, 0, seen.grid.height * patch.height).slice(1, 0, seen.grid.width * patch.width);
  write_svg(form, [&] { return to_svg(seen, covered); });
  if (form.report.wanted()) form.report.report.add(seen, covered);
  return form.json ? to_json(seen, covered) + "\n" : to_text(seen, covered, form.style);
}

// With the fingerprint of the model, if it is to be told.
template <class... Model>
ExplanationForm with_fingerprint(ExplanationForm form, const Model&... model) {
  if (form.tells_fingerprint) form.fingerprint = model_fingerprint(model...);
  return form;
}

// A text, and the most probable token behind it, or what `qkv generate` writes.
struct TextAndMore {
  std::vector<std::int32_t> ids;
  std::size_t given;  // so many of them are the text's
};

TextAndMore text_and_more(const Generator& generator, const ModelOptions& options) {
  std::vector<std::int32_t> ids = generator.tokenizer().encode(options.text).ids;
  if (ids.empty()) throw UsageError("--text", "has no tokens; the model needs one to continue");
  const std::string why = generator.refusal_of_length(std::ssize(ids));
  if (!why.empty()) throw UsageError("--text", why);
  const GeneratorOptions writing{.max_new_tokens = options.write.value_or(1),
                                 .beams = 1,
                                 .greedy = !options.write.has_value(),
                                 .stop = interruption()};
  const std::size_t given = ids.size();
  const std::vector<std::int32_t> more = generator.generate_ids(std::span(&ids, 1), writing).front().front().ids;
  ids.insert(ids.end(), more.begin(), more.end());
  return {std::move(ids), given};
}

void refuse_writing(const ModelOptions& options) {
  if (options.write) throw UsageError("--write", "needs a language model, which " + options.folder + " is not");
}

}  // namespace

std::string explain_model(const ModelOptions& options, const ExplanationForm& form) {
  const WeightStorage storage = options.storage.of_model();
  if (!options.image.empty()) return explained_picture(options, with_fingerprint(form, options.folder, storage));
  if (Vit::is_in(options.folder)) throw UsageError("--text", "the model reads pictures; give --image");
  if (EncoderDecoder::is_in(options.folder)) {
    refuse_writing(options);
    const Translator translator = Translator::load(options.folder, storage);
    const Translation translation = translator.translate(options.text, {.split = false, .stop = interruption()});
    return explained(without_left_out(options.left_out,
                                      [&](const LeftOut& some) {
                                        return TranslatedText(translator, options.text, translation, some,
                                                              interruption());
                                      }),
                     options, with_fingerprint(form, translator));
  }
  if (LanguageModel::is_in(options.folder)) {
    const Generator generator = Generator::load(options.folder, storage);
    const TextAndMore text = text_and_more(generator, options);
    const WrittenTextOptions parts{
        .prompt = text.given, .explain_prompt = !options.write, .run = {.stop = interruption()}};
    const auto written = [&](const LeftOut& some) {
      return WrittenText(generator.model(), &generator.tokenizer(), text.ids, parts, some);
    };
    return explained(without_left_out(options.left_out, written), options, with_fingerprint(form, generator));
  }
  refuse_writing(options);
  const std::int64_t vocab = TextEncoder::check(options.folder).vocab;
  const Encoding text = Tokenizer::load(options.folder + "/tokenizer.json", vocab).encode(options.text);
  const TextEncoder model = TextEncoder::load(options.folder, storage);
  const auto encoded = [&](const LeftOut& some) { return EncodedText(model, text, {.stop = interruption()}, some); };
  return explained(without_left_out(options.left_out, encoded), options,
                   with_fingerprint(form, options.folder, storage));
}

std::vector<Option> model_options(ModelOptions& options) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const Names<std::string> sites = {
      {"encoder", "encoder"}, {"decoder", "decoder"}, {"encoder-decoder", "encoder-decoder"}};
  std::vector<Option> all = {
      {"--model", file(options.folder, "FOLDER"),
       "Folder of the model for --text: config.json, model.safetensors, tokenizer.json (default: English to Spanish, "
       "the model that comes with qkv); for --image, a Vision Transformer: preprocessor_config.json instead of "
       "tokenizer.json"},
      {"--text", text(options.text, "TEXT"), "Show what the model's heads attend to in this text"},
      {"--image", file(options.image), "Show where the heads of a Vision Transformer look in this PNG or JPEG file",
       needs("--model") & excludes("--text", "--attention", "--weights")},
      {"--layer", whole(options.layer, 0, kLargest), "With a model: show one head in full; its layer, from 0",
       needs("--head")},
      {"--head", whole(options.head, 0, kLargest), "Head of that layer, from 0", needs("--layer")},
      {"--attention", choice(options.attention, sites), "For a translation model: the attention of that head",
       needs("--layer")},
      {"--token", text(options.token, "TOKEN"),
       "With --layer and --head: show the computation of this token step by step; its text (first match) or its "
       "number. With --text alone: how much it depends on each key and each head, by weight, value norm, gradient, "
       "rollout and knock-out; with a generating model, a token that it generated. With --image alone: where this "
       "token looks, \"class\" or a patch by row and column, \"3,4\" (default: class)"},
      {"--weights", flag(options.weights),
       "With --text and --json, without --layer and --token: also the weights of every head, layers x heads x tokens^2 "
       "numbers",
       needs("--text", "--json") & excludes("--layer", "--token")},
      {"--write", whole(options.write, 1, 1 << 20),
       "With --text and a language model: generate N tokens after the text, as generate does, and explain them "
       "(default: explain the text as if the model had generated it, and the most probable next token)",
       needs("--text")},
      model_precision_option(options.storage.precision)};
  for (const std::vector<Option>& more :
       {kept_head_options(options.keep, "LAYER.HEAD", excludes("--image", "--layer", "--token")),
        left_out_options(options.left_out)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string explain_model(const Command& command, ModelOptions options, ExplanationForm form) {
  refuse_others(command);
  if (options.text.empty() && options.image.empty() && !command.given("--text")) {
    for (const char* option : {"--model", "--layer", "--without-head", "--without-key", "--token", "--keep"}) {
      if (command.given(option)) throw UsageError(option, "needs --text or --image, the model's input");
    }
  }
  if (form.style.heat && !options.image.empty() && !options.layer) {
    throw UsageError("--heat", "needs --layer and --head with --image; without them the picture is drawn anyway");
  }
  if (!form.svg.empty() && !options.layer && options.image.empty()) {
    throw UsageError("--svg", "needs --layer and --head: the picture shows one head");
  }
  if (options.image.empty()) options.text = text_of_option("--text", options.text);
  options.keep.check(form.report, form.json);
  options.folder =
      options.folder.empty() ? default_model(DefaultModel::translator) : find_language_model(options.folder);
  std::vector<NamedFile> files = model_files(options.folder);
  files.push_back({"--image", options.image});
  const bool picture = !options.image.empty();
  form.report.check(files, {"--svg", form.svg});
  form.report.read_beside(options.layer ? "head" : picture ? "picture" : options.token ? "token" : "heads");
  form.tells_fingerprint = form.json || form.report.wanted();
  const std::string text = explain_model(options, form);
  form.report.write(
      picture ? "Where a Vision Transformer looks: " + std::filesystem::path(options.image).filename().string()
              : "What the heads attend to: " + options.text,
      command.line());
  return text;
}

}  // namespace qkv::app
