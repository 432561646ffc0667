"""Models of transformers computed by our engine as a whole, for inference."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import torch
from torch import Tensor, nn

from .. import _qkv
from ..translator import Translator

_ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert", "mpnet")


def whole(model: Any) -> Any:
    """A model of the BERT family or a Marian one of transformers on our engine, with the weights that it has now.

    A BertModel, RobertaModel, XLMRobertaModel, DistilBertModel or MPNetModel becomes a WholeEncoder; in a model
    with a head the encoder is replaced, and the model returned. A MarianMTModel becomes a WholeTranslator.
    Inference alone, in float32 on the CPU: no gradients, no dropout; other types and devices are a TypeError. Both pickle
    with their weights, whose files they keep on the disk, without a name. ValueError for other models.

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


class _Files:
    """A model of ours, and the files that it was read from: it pickles as these, and copies share it."""

    def __init__(self, load: Callable[[str], Any], write: Callable[[str], object]) -> None:
        self._load = load
        with TemporaryDirectory() as folder:
            write(folder)
            self.core = load(folder)
            self._file = TemporaryFile()
            pickle.dump({path.name: path.read_bytes() for path in Path(folder).iterdir()}, self._file)
            self._file.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        descriptor = self._file.fileno()
        return _read_again, (self._load, os.pread(descriptor, os.fstat(descriptor).st_size, 0))

    def __deepcopy__(self, memo: Any) -> _Files:
        return self


def _read_again(load: Callable[[str], Any], files: bytes) -> _Files:
    def write(folder: str) -> None:
        for name, content in pickle.loads(files).items():
            Path(folder, name).write_bytes(content)

    return _Files(load, write)


class Float32Module(nn.Module):
    """A module whose numbers are not parameters: float32 on the CPU, which half(), to() and their kin cannot change."""

    dtype = torch.float32
    device = torch.device("cpu")

    def _apply(self, function: Any, recurse: bool = True) -> Any:
        moved = function(torch.empty(0))
        if moved.dtype != self.dtype or moved.device != self.device:
            raise TypeError(f"{type(self).__name__} computes in float32 on the CPU, not in {moved.dtype} on {moved.device}")
        return super()._apply(function, recurse)


class WholeEncoder(Float32Module):
    """An encoder that takes the place of one of transformers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.config = model.config
        self.pooler = getattr(model, "pooler", None)
        self._files = _Files(_qkv._TextEncoder, model.save_pretrained)
        self.train(model.training)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Any:
        """The last hidden states [batch, tokens, size], 0 at padding, which must be on the right; and the pooler's output.
        A tuple of these with return_dict=False, or if the config says so.

        ValueError for any other argument.
        """
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        for name, given in others.items():
            if given is not None and given is not False:
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
        rows = self._files.core.forward(
            input_ids[visible].tolist(), types[visible].tolist(), lengths.tolist(), torch.get_num_threads()
        )
        hidden = torch.zeros(*input_ids.shape, rows.shape[1])
        hidden[visible] = torch.from_numpy(rows)
        pooled = None if self.pooler is None else self.pooler(hidden)
        output = BaseModelOutputWithPooling(last_hidden_state=hidden, pooler_output=pooled)
        if return_dict is None:
            return_dict = getattr(self.config, "return_dict", True)
        return output if return_dict else output.to_tuple()


class WholeTranslator:
    """generate() of a MarianMTModel on our engine."""

    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.generation_config = model.generation_config
        self._files = _Files(Translator, model.save_pretrained)

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

        Arguments that are not given come from the model's generation_config. One difference: a search ends as soon as
        num_beams hypotheses have ended.
        """
        visible = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        sources = [row[seen].tolist() for row, seen in zip(input_ids, visible)]
        found = self._files.core.generate(
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
