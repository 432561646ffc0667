// MultiHeadAttention.
#include <fmt/format.h>

#include <optional>

#include "layer.h"
#include "layer_configs.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv::python {
namespace {

MultiHeadAttentionConfig read_config(Keywords& keywords) {
  MultiHeadAttentionConfig config;
  keywords.read("model_dim", config.model_dim);
  keywords.read("key_input_dim", config.key_input_dim);
  keywords.read("value_input_dim", config.value_input_dim);
  keywords.read("out_dim", config.out_dim);
  keywords.read("bias_kv", config.bias_kv);
  keywords.read("zero_attention", config.zero_attention);
  keywords.read(
      "scheme", config.scheme,
      {{"packed", HeadScheme::packed}, {"per_head", HeadScheme::per_head}, {"two_stage", HeadScheme::two_stage}});
  read_heads(keywords, config);
  return config;
}

struct HeadsCall : LayerCall {
  MultiHeadAttentionOptions options{};
  TensorView offsets_query{}, offsets_key{};
  MultiHeadAttentionSaved saved{};

  // Keys are queries, and values keys, unless given.
  Sequences query() const { return {input(0), offsets_query}; }
  Sequences key() const { return arrays.size() > 1 ? Sequences(input(1), offsets_key) : query(); }
  Sequences value() const { return arrays.size() > 2 ? Sequences(input(2), offsets_key) : key(); }
};

// Optional outputs: [batch, heads, q_len, k_len], and without heads.
Tensor weights_place(const MultiHeadAttention& layer, const HeadsCall& call, bool of_heads) {
  const auto longest = [](const Sequences& x) {
    if (!x.ragged()) return x.rows.rank() < 2 ? std::int64_t{0} : x.rows.size(-2);
    std::int64_t most = 0;
    for (std::int64_t i = 1; i < x.offsets.element_count(); ++i) {
      most = std::max<std::int64_t>(most, x.offsets.at<std::int32_t>({i}) - x.offsets.at<std::int32_t>({i - 1}));
    }
    return most;
  };
  const MultiHeadAttentionConfig& config = layer.config();
  const std::int64_t extra = std::int64_t{config.bias_kv} + std::int64_t{config.zero_attention};
  const TensorView& rows = call.query().rows;
  Dims shape;
  for (int i = 0; i + 2 < rows.rank(); ++i) shape.push_back(rows.size(i));
  if (call.query().ragged()) {
    shape = {rows.rank() > 0 ? rows.size(0) : 0};
    if (of_heads) shape.push_back(config.heads);
  } else {
    if (of_heads) shape.push_back(config.heads);
    shape.push_back(rows.rank() < 2 ? 0 : rows.size(-2));
  }
  shape.push_back(longest(call.key()) + extra);
  return Tensor::uninitialized(shape, rows.dtype());
}

nb::object forward_heads(nb::handle self, nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& given) {
  const auto& layer = core_of<MultiHeadAttention>(self);
  const auto call = std::make_shared<HeadsCall>();
  call->arrays.push_back(take_floats(query, "query"));
  if (!key.is_none()) call->arrays.push_back(take_floats(key, "key"));
  if (!value.is_none()) {
    if (key.is_none()) throw std::invalid_argument("MultiHeadAttention: value needs key");
    call->arrays.push_back(take_floats(value, "value"));
  }
  Keywords keywords("MultiHeadAttention", given);
  bool save = false, need_weights = false, average_weights = true;
  keywords.read("mask", call->options.mask);
  keywords.read("bias", call->options.bias);
  keywords.read_offsets("offsets_query", call->offsets_query);
  keywords.read_offsets("offsets_key", call->offsets_key);
  keywords.read_threads(call->options.threads);
  keywords.read("need_weights", need_weights);
  keywords.read("average_weights", average_weights);
  keywords.read("save", save);
  keywords.read_dropout(call->options.dropout);
  keywords.finish();
  call->others = keywords.arrays();

  Tensor out, weights;
  MultiHeadAttentionOptions options = call->options;
  if (need_weights) {
    weights = weights_place(layer, *call, !average_weights);
    (average_weights ? options.mean_weights : options.weights) = weights;
  }
  run_released(layer_operations(call->query(), layer.config().model_dim), [&] {
    out = save ? layer.forward(call->query(), call->key(), call->value(), options, call->saved)
               : layer.forward(call->query(), call->key(), call->value(), options);
  });
  nb::object result = give_array(std::move(out), call->kind());
  if (need_weights) result = nb::make_tuple(result, give_array(std::move(weights), call->kind()));
  if (!save) return result;
  return give_saved(result, self, [call, &core = core_of<MultiHeadAttention>(self)](nb::handle grad_out) -> nb::object {
    const Array gradient = take_floats(grad_out, "grad_out");
    std::vector<TensorView> inputs;
    for (const Array& array : call->arrays) inputs.push_back(array.view);
    InputGradients to(inputs);
    const std::size_t last = inputs.size() - 1;
    run_released(3 * layer_operations(call->query(), core.config().model_dim), [&] {
      core.backward(call->query(), call->key(), call->value(), call->options, call->saved, gradient.view,
                    {.query = to[0], .key = to[std::min<std::size_t>(1, last)], .value = to[last]});
    });
    return to.give(call->kind());
  });
}

}  // namespace

void bind_heads(nb::module_& module) {
  add_layer<MultiHeadAttention>(
      module, "MultiHeadAttention",
      "def __init__(self, *, model_dim: int, " QKV_HEAD_KEYWORDS
      ", key_input_dim: int | None = None, value_input_dim: int | None = None, out_dim: int | None = None, bias_kv: "
      "bool = False, zero_attention: "
      "bool "
      "= False, scheme: typing.Literal['packed', 'per_head', 'two_stage'] = 'packed', " QKV_LAYER_KEYWORDS ") -> None",
      R"(Many attentions side by side: project to heads, attend, merge, project out.

Parameters and results are those of torch.nn.MultiheadAttention, but for masks, which are qkv's (True may attend), and
for rows that see no key, which are 0 before the output projection. Sizes that are not given are those of model_dim, kv_heads that
of heads, head_dim model_dim / heads. Fresh weights are drawn from seed as torch draws its own.

>>> import numpy, qkv
>>> layer = qkv.layers.MultiHeadAttention(model_dim=8, heads=2)
>>> layer(numpy.ones((1, 3, 8), "f"), mask=qkv.Mask.causal()).shape
(1, 3, 8)
>>> sorted(layer.state_dict())
['in_proj_bias', 'in_proj_weight', 'out_proj.bias', 'out_proj.weight']
)",
      read_config)
      .def(
          "__call__", &forward_heads, "query"_a, "key"_a = nb::none(), "value"_a = nb::none(), "keywords"_a,
          nb::sig("def __call__(self, query: Array, key: Array | None = None, value: Array | None = None, *, mask: "
                  "AnyMask = None, bias: AnyBias = None, offsets_query: Array | None = "
                  "None, offsets_key: Array | None "
                  "= None, dropout: float = 0.0, seed: int | None = None, need_weights: bool = False, average_weights: "
                  "bool = True, threads: int | None = None, save: bool = False) -> typing.Any"),
          "query [batch, q_len, dim] or [q_len, dim], or ragged: rows [tokens, dim] with offsets_query, int32 [batch + "
          "1]; keys are the queries, and values the keys, unless given. need_weights: gives (out, weights), [batch, "
          "q_len, k_len] or without average_weights [batch, heads, q_len, k_len]. save: gives (out, saved), for "
          "backward().");
}

}  // namespace qkv::python
