// Lists the attentions of a BERT-family model over a text.
#include "qkv/explain/encoded_text.h"

#include "explain/require.h"
#include "qkv/layers/sequences.h"

namespace qkv {

EncodedText::EncodedText(const Bert& model, const Encoding& text, const BertOptions& options)
    : model_(model), options_(options) {
  const BertConfig& config = model.config();
  const auto count = static_cast<std::int64_t>(text.ids.size());
  require(count > 0, "the text has no tokens");
  require(count <= config.positions, "the text has {} tokens; the model reads at most {}", count, config.positions);
  tokens_ = {text.ids, text.type_ids, offsets_of(std::vector<std::int64_t>{count})};
  attentions_ = {.sequences = {{.name = "tokens", .tokens = text.tokens, .special = text.special}},
                 .sites = {{.name = "heads",
                            .before = "layers.",
                            .after = ".",
                            .layers = config.layers,
                            .heads = config.heads,
                            .model_dim = config.model_dim}}};
}

}  // namespace qkv
