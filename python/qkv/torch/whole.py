"""Models of transformers computed by our engine as a whole, for inference."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from .. import _qkv
from ..translator import Translator

_ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert", "mpnet")


def whole(model: Any) -> Any:
    """A model of the BERT family or a Marian one of transformers on our engine, with the weights that it has now.

    A BertModel, RobertaModel, XLMRobertaModel, DistilBertModel or MPNetModel becomes a WholeEncoder; of a model with a
    head on one the encoder inside is replaced, and the model given back. A MarianMTModel becomes a WholeTranslator.
    Inference alone: no gradients, no dropout. ValueError for other models.

    >>> import qkv.torch, transformers
    >>> config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> encoder = qkv.torch.whole(transformers.BertModel(config).eval())
    >>> encoder(torch.tensor([[5, 6, 7]])).last_hidden_state.shape
    torch.Size([1, 3, 8])
    """
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if kind == "marian":
        return WholeTranslator(model)
    if kind not in _ENCODERS:
        raise ValueError(f"whole: no engine for {kind}; there is one for {', '.join(_ENCODERS)} and marian")
    encoder = model.base_model
    if encoder is model:
        return WholeEncoder(model)
    setattr(model, model.base_model_prefix, WholeEncoder(encoder))
    return model


class WholeEncoder(nn.Module):
    """An encoder that takes the place of one of transformers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.config = model.config
        self.pooler = getattr(model, "pooler", None)
        with TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            self._core = _qkv._Bert(folder)
        self.train(model.training)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **others: Any,
    ) -> Any:
        """The last hidden states [batch, tokens, size], 0 at padding, which must be on the right; and what the pooler says.

        ValueError for any other argument: nothing else is computed.
        """
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        for name, given in others.items():
            if given is not None and given is not False and not (name == "return_dict" and given is True):
                raise ValueError(f"an encoder of qkv.torch.whole does not take {name}")
        if torch.is_grad_enabled() and self.training:
            raise RuntimeError("an encoder of qkv.torch.whole has no gradients: call eval(), or train the model it was made of")
        visible = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        if visible.shape != input_ids.shape:
            raise ValueError(f"attention_mask must be {list(input_ids.shape)}, got {list(visible.shape)}")
        lengths = visible.sum(1)
        if not torch.equal(visible, torch.arange(visible.shape[1]) < lengths[:, None]):
            raise ValueError("attention_mask must have its padding on the right: tokens have positions from the left")
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        rows = self._core.forward(
            input_ids[visible].tolist(), types[visible].tolist(), lengths.tolist(), torch.get_num_threads()
        )
        hidden = torch.zeros(*input_ids.shape, rows.shape[1])
        hidden[visible] = torch.from_numpy(rows)
        pooled = None if self.pooler is None else self.pooler(hidden)
        return BaseModelOutputWithPooling(last_hidden_state=hidden, pooler_output=pooled)


class WholeTranslator:
    """generate() of a MarianMTModel on our engine."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.generation_config = model.generation_config
        with TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            self._core = Translator(folder)

    @torch.no_grad()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        num_beams: int | None = None,
        max_new_tokens: int | None = None,
        length_penalty: float | None = None,
        num_return_sequences: int = 1,
    ) -> Tensor:
        """Ids [batch * num_return_sequences, tokens] from the start token on, filled up with the padding token.

        The arguments that are not given are those of the model's generation_config. What differs: a search ends as soon
        as num_beams hypotheses have ended.
        """
        visible = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        sources = [row[seen].tolist() for row, seen in zip(input_ids, visible)]
        found = self._core.generate(
            sources,
            beams=num_beams,
            max_length=max_new_tokens,
            length_penalty=length_penalty,
            nbest=num_return_sequences,
            threads=torch.get_num_threads(),
        )
        start, padding = self.config.decoder_start_token_id, self.config.pad_token_id
        rows = [torch.tensor([start, *each.ids]) for best in found for each in best]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)
