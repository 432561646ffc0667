// MultiHeadAttention.
#include <fmt/format.h>

#include "layer.h"
#include "layer_configs.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv::python {
namespace {

MultiHeadAttentionConfig read_config(Keywords& keywords) {
  MultiHeadAttentionConfig config;
  keywords.read("model_dim", config.model_dim, "key_input_dim", config.key_input_dim, "value_input_dim",
                config.value_input_dim, "out_dim", config.out_dim, "bias_kv", config.bias_kv, "zero_attention",
                config.zero_attention);
  keywords.read(
      "scheme", config.scheme,
      {{"packed", HeadScheme::packed}, {"per_head", HeadScheme::per_head}, {"two_stage", HeadScheme::two_stage}});
  read_heads(keywords, config);
  return config;
}

struct HeadsCall : CallOf<MultiHeadAttentionOptions, MultiHeadAttentionSaved> {
  using CallOf::CallOf;

  // Keys are queries, and values keys, unless given.
  Sequences query() const { return sequences(0); }
  Sequences key() const { return arrays.size() > 1 ? sequences(1) : query(); }
  Sequences value() const { return arrays.size() > 2 ? Sequences(input(2), offsets[1]) : key(); }
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
  auto& layer = core_of<MultiHeadAttention>(self);
  const auto call = call_of<HeadsCall>({{query, "query"}});
  if (!key.is_none()) call->arrays.push_back(take_floats(key, "key"));
  if (!value.is_none()) {
    if (key.is_none()) throw std::invalid_argument("MultiHeadAttention: value needs key");
    call->arrays.push_back(take_floats(value, "value"));
  }
  Keywords keywords("MultiHeadAttention", given);
  bool need_weights = false, average_weights = true;
  keywords.read("mask", call->options.mask, "bias", call->options.bias, "need_weights", need_weights, "average_weights",
                average_weights);
  keywords.read_offsets("offsets_query", call->offsets[0]);
  keywords.read_offsets("offsets_key", call->offsets[1]);
  keywords.read_dropout(call->dropout);
  call->finish(keywords);
  call->options.threads = call->threads;
  call->options.dropout = call->dropout;
  return run_layer(
      self, call, layer_operations(call->query(), layer.config().model_dim),
      [&](HeadsCall& c) {
        MultiHeadAttentionOptions options = c.options;
        Tensor weights;
        if (need_weights) {
          weights = weights_place(layer, c, !average_weights);
          (average_weights ? options.mean_weights : options.weights) = weights;
        }
        Tensor out = c.save ? layer.forward(c.query(), c.key(), c.value(), options, c.saved)
                            : layer.forward(c.query(), c.key(), c.value(), options);
        return need_weights ? list_of(std::move(out), std::move(weights)) : list_of(std::move(out));
      },
      [&layer](HeadsCall& c, const std::vector<TensorView>& grad_out) {
        std::vector<Tensor> to;
        for (const Array& array : c.arrays) to.push_back(Tensor::zeros(array.view.shape(), array.view.dtype()));
        layer.backward(c.query(), c.key(), c.value(), c.options, c.saved, grad_out[0],
                       {.query = to[0], .key = to[std::min<std::size_t>(1, to.size() - 1)], .value = to.back()});
        return to;
      });
}

}  // namespace

void bind_heads(nb::module_& module) {
  add_layer<MultiHeadAttention>(module, "MultiHeadAttention", read_config)
      .def("__call__", &forward_heads, "query"_a, "key"_a = nb::none(), "value"_a = nb::none(), "keywords"_a);
}

}  // namespace qkv::python
