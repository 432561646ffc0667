// Lists the attentions of encoders: of a BERT-family model over a text, and of a Vision Transformer over a picture.
#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/token_names.h"
#include "pipelines/classes.h"
#include "qkv/explain/encoded_picture.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/layers/sequences.h"
#include "text/stages/byte_alphabet.h"
#include "text/stages/unicode.h"

namespace qkv {

inline namespace explaining {

std::string label_of(const std::string& token) {
  static const std::string kSpace = "\xe2\x96\x81";  // of unigram vocabularies
  std::string bytes;
  for (const char32_t code : text::to_code_points(token)) {
    const auto byte = text::byte_of(code);
    if (!byte) return token == kSpace ? kBlank : token.starts_with(kSpace) ? token.substr(kSpace.size()) : token;
    bytes += static_cast<char>(*byte);
  }
  std::string valid;
  for (const char32_t code : text::to_code_points(bytes)) text::append_utf8(valid, code);
  const std::size_t begin = bytes.find_first_not_of(' ');
  if (valid != bytes || bytes.empty()) return token;
  return begin == std::string::npos ? kBlank : bytes.substr(begin);
}

}  // namespace explaining

namespace {

// The attentions of an encoder: one, with the tokens as queries and keys.
// `config`: with layers, heads and model_dim. `bias`: of every layer. Errors as check_left_out().
template <class Config>
Attentions encoder_attentions(const Config& config, AttentionSequence tokens, LeftOut left_out,
                              const std::optional<RelativeTable>& bias = {}) {
  Attentions attentions{.sequences = {std::move(tokens)},
                        .sites = {{.name = "attention",
                                   .before = "layers.",
                                   .after = ".",
                                   .layers = config.layers,
                                   .heads = config.heads,
                                   .model_dim = config.model_dim,
                                   .bias = bias}},
                        .left_out = std::move(left_out)};
  check_left_out(attentions, attentions.left_out);
  return attentions;
}

// A token begins a word where a blank or a special token is before it, and if it is punctuation or follows some. None
// if where the tokens are in the text is not known.
TokenWords words_of(const Encoding& text) {
  TokenWords words;
  if (text.offsets.size() != text.ids.size() || text.special.size() != text.ids.size()) return words;  // not known
  const auto is_punctuation = [](const std::string& token) { return token.size() == 1 && std::ispunct(token[0]) != 0; };
  for (std::size_t i = 0; i < text.ids.size(); ++i) {
    if (text.special[i] != 0) {
      words.word_of.push_back(-1);
      continue;
    }
    const std::string& token = text.tokens[i];
    const bool follows = i > 0 && text.special[i - 1] == 0 && text.offsets[i].begin == text.offsets[i - 1].end;
    if (!follows || is_punctuation(token) || is_punctuation(text.tokens[i - 1])) words.words.emplace_back();
    std::string part = label_of(token);
    if (part.starts_with(kPieceMark) && part.size() > kPieceMark.size()) part.erase(0, kPieceMark.size());
    if (part != kBlank) words.words.back() += part;
    words.word_of.push_back(std::ssize(words.words) - 1);
  }
  for (std::string& word : words.words) {
    if (word.empty()) word = kBlank;
  }
  return words;
}

// Pieces after the first of a word begin with this mark, as BERT's do.
std::vector<std::string> labels_of(const Encoding& text, const TokenWords& words) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < text.tokens.size(); ++i) {
    const bool continues =
        i > 0 && !words.word_of.empty() && words.word_of[i] >= 0 && words.word_of[i] == words.word_of[i - 1];
    const std::string label = label_of(text.tokens[i]);
    labels.push_back(continues && !label.starts_with(kPieceMark) ? kPieceMark + label : label);
  }
  return labels;
}

}  // namespace

EncodedText::EncodedText(const TextEncoder& model, const Encoding& text, const TextEncoderOptions& options,
                         LeftOut left_out)
    : model_(model), options_(options) {
  const TextEncoderConfig& config = model.config();
  const auto count = static_cast<std::int64_t>(text.ids.size());
  require(count > 0, "the text has no tokens");
  require(count <= config.positions, "the text has {} tokens; the model reads at most {}", count, config.positions);
  tokens_ = {text.ids, text.type_ids, offsets_of(std::vector<std::int64_t>{count})};
  const TokenWords words = words_of(text);
  AttentionSequence tokens{.name = "tokens",
                           .tokens = labels_of(text, words),
                           .special = text.special,
                           .ids = text.ids,
                           .words = words,
                           .scope = ""};
  attentions_ = encoder_attentions(config, std::move(tokens), std::move(left_out), model.relative_bias());
  for (const TransformerLayerConfig& layer : config.each) {
    attentions_.sites[0].windows.push_back(layer.window ? Mask::window(layer.window->left, layer.window->right)
                                                        : Mask());
  }
}

Tensor EncodedText::forward(const LeftOut& more, Observer* observer) const {
  const LeftOutMasks masks(attentions_, more);
  TextEncoderOptions options = options_;
  options.masks = masks.of(0);
  return model_.forward(tokens_, options, observer);
}

EncodedPicture::EncodedPicture(const Vit& model, Tensor pixels, const VitOptions& options, LeftOut left_out)
    : model_(model), pixels_(std::move(pixels)), options_(options) {
  require(pixels_.rank() == 3, "the picture must be [height, width, channels], got {}", to_string(pixels_.shape()));
  grid_ = model.grid_of({pixels_.size(0), pixels_.size(1)});
  AttentionSequence tokens{.name = "tokens", .tokens = {"class"}, .special = {1}};
  for (std::int64_t y = 0; y < grid_.height; ++y) {
    for (std::int64_t x = 0; x < grid_.width; ++x) tokens.tokens.push_back(fmt::format("{},{}", y, x));
  }
  tokens.special.resize(tokens.tokens.size());
  attentions_ = encoder_attentions(model.config(), std::move(tokens), std::move(left_out));
}

Tensor EncodedPicture::forward(const LeftOut& more, Observer* observer) const {
  const LeftOutMasks masks(attentions_, more);
  VitOptions options = options_;
  options.masks = masks.of(0);
  return model_.forward(batch(), options, observer);
}

std::vector<ClassProbability> EncodedPicture::classes(std::int64_t top) const {
  if (model_.config().labels.empty()) return {};
  const LeftOutMasks masks(attentions_, {});
  VitOptions options = options_;
  options.masks = masks.of(0);
  const Tensor logits = model_.logits(batch(), options);
  return most_probable({logits.data<float>(), static_cast<std::size_t>(logits.size(1))}, model_.config().labels, top);
}

Outcome EncodedPicture::outcome(const LeftOut& more) const {
  const Tensor hidden = forward(more, nullptr);
  return {.outputs = Tensor::copy(hidden.view().select(0, 0))};
}

}  // namespace qkv
