"""Embedding and translating as callables on batches, for engines that spread work over processes and machines.

>>> import qkv.batches, qkv_en_es
>>> translate = qkv.batches.Translate(qkv_en_es.folder, column="text", into="spanish")
>>> translate({"text": ["You are welcome.", None]})["spanish"]
['De nada.', None]

Ray Data: ``data.map_batches(embed, batch_format="pyarrow")``. Dask: ``frame.map_partitions(embed)``. Spark:
``frame.mapInArrow(embed.each, schema)``. datasets: ``data.map(embed, batched=True)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from . import _qkv
from .embedder import Embedder
from .options import ModelPrecision, Weights
from .translator import Translator

if TYPE_CHECKING:
    import pyarrow


@dataclass(eq=False)
class _Batches:
    """Their common part: it pickles as its arguments, and each process reads the folder once."""

    folder: str | os.PathLike[str]
    column: str = "text"
    into: str | None = None
    target: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        self.folder = os.fspath(self.folder)
        self.into = self._into if self.into is None else self.into
        self.fused = _qkv._is_fused()

    _into: ClassVar[str]
    _open: ClassVar[Callable[..., Any]]
    _how: ClassVar[tuple[str, ...]] = ()  # the arguments that the folder is opened with, beyond its name
    _options: ClassVar[tuple[str, ...]]  # names of each call's options

    def _given(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def _values(self, texts: list[str]) -> Any:
        """The result for each text: a list or a matrix."""
        raise NotImplementedError

    def _arrow(self, values: Any, present: list[bool]) -> pyarrow.Array:
        """The values as a column with nulls."""
        raise NotImplementedError

    def __call__(self, batch: Any) -> Any:
        """A batch of the given type with one more column.

        A dict of lists or arrays, a pyarrow Table or RecordBatch, or a pandas DataFrame. None, and its equivalents in
        pandas, stay null. KeyError without the column; TypeError for another kind of batch, and for values that are not text;
        ValueError where this CPU lacks the target.
        """
        kind = type(batch).__module__.partition(".")[0]
        if isinstance(batch, Mapping):
            return {**batch, self.into: self._plain(batch[self.column])}
        if kind == "pyarrow":
            values, present = self._computed(batch.column(self.column).to_pylist())
            return _with_column(batch, str(self.into), self._arrow(values, present))
        if kind == "pandas":
            import pandas

            texts = [None if pandas.isna(text) else text for text in batch[self.column]]
            values, present = self._computed(texts)
            column = pandas.arrays.ArrowExtensionArray(self._arrow(values, present))
            return batch.assign(**{str(self.into): pandas.Series(column, index=batch.index)})
        raise TypeError(
            "a batch must be a dict of lists or arrays, a pyarrow Table or RecordBatch, or a pandas DataFrame, "
            f"got {type(batch).__name__}"
        )

    def each(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The same for each batch of a stream, in the types of Spark, which has no lists of a fixed size."""
        import pyarrow

        for batch in batches:
            result = self(batch)
            column = result.column(self.into)
            if pyarrow.types.is_fixed_size_list(column.type):
                result = _with_column(result, str(self.into), column.cast(pyarrow.list_(column.type.value_type)))
            yield result

    def _plain(self, texts: Any) -> Any:
        values, present = self._computed(list(texts))
        if isinstance(texts, numpy.ndarray) and all(present):
            return numpy.asarray(values)
        rest = iter(values)
        rows = [next(rest) if there else None for there in present]
        if not isinstance(texts, numpy.ndarray):
            return rows
        column = numpy.empty(len(rows), object)
        for at, row in enumerate(rows):
            column[at] = row
        return column

    def _computed(self, texts: list[Any]) -> tuple[Any, list[bool]]:
        """The values of the texts that are not null, and which these are."""
        present = [text is not None for text in texts]
        return self._values([text for text in texts if text is not None]), present

    def _model(self) -> Any:
        """The model of this process, on a target of the class that the callable was made for, or the target asked for."""
        how = self._given(self._how)
        key = (type(self), self.folder, *how.values())
        with _lock:
            if self.target is None and _qkv._is_fused() != self.fused:
                raise ValueError(
                    f"this process computes on {_qkv.selected_target()}, and this batch is for a target "
                    f"{'with' if self.fused else 'without'} fused multiply-add: the numbers would differ in their last bits"
                )
            if self.target is not None and _qkv.selected_target() != self.target:
                if _models:
                    raise ValueError(
                        f"this process computes on {_qkv.selected_target()} already, and this batch is for {self.target}: the "
                        "numbers would differ in their last bits"
                    )
                _qkv.select_target(str(self.target))
            if key not in _models:
                _models[key] = type(self)._open(self.folder, **how)
            return _models[key]


@dataclass(eq=False)
class Embed(_Batches):
    """Texts of a column to their embeddings, as ``qkv.Embedder(folder).encode`` gives them.

    Embeddings are float32: FixedSizeList in pyarrow and pandas, in a dict a matrix for an array and a list of rows for a
    list (with nulls an array of objects). The same numbers for any partition, worker or retry: a worker whose CPU target
    is of another class (with fused multiply-add, or without) than in the process that made the callable refuses, and with
    target one whose CPU lacks that target. threads: None for the number that the engine grants (OMP_NUM_THREADS). weights
    and precision as in Embedder(); prompt, prompt_name, normalize_embeddings and truncate_dim as in encode().
    """

    _: KW_ONLY
    prompt_name: str | None = None
    prompt: str | None = None
    normalize_embeddings: bool = False
    truncate_dim: int | None = None
    weights: Weights = "f32"
    precision: ModelPrecision = "exact"

    _into = "embedding"
    _open = Embedder
    _how = ("weights", "precision")
    _options = ("prompt_name", "prompt", "normalize_embeddings", "truncate_dim")

    def _values(self, texts: list[str]) -> Any:
        model = self._model()
        if model.kind != "vector":
            raise ValueError(f"Embed: the folder's embeddings are of kind {model.kind!r}; a column has a vector for each text")
        return model.encode(texts, threads=self.threads, **self._given(self._options))

    def _arrow(self, values: Any, present: list[bool]) -> pyarrow.Array:
        import pyarrow

        rows = numpy.zeros((len(present), values.shape[1]), numpy.float32)
        rows[numpy.array(present, bool)] = values
        numbers = pyarrow.array(rows.reshape(-1))
        hidden = pyarrow.array(~numpy.array(present, bool))
        return pyarrow.FixedSizeListArray.from_arrays(numbers, rows.shape[1], mask=hidden)


@dataclass(eq=False)
class Translate(_Batches):
    """Texts of a column to their translations, as ``qkv.Translator(folder).translate`` gives them.

    target and threads as in Embed; beams, max_length, length_penalty and split as in translate().
    """

    _: KW_ONLY
    beams: int | None = None
    max_length: int | None = None
    length_penalty: float | None = None
    split: bool = True

    _into = "translation"
    _open = Translator
    _options = ("beams", "max_length", "length_penalty", "split")

    def _values(self, texts: list[str]) -> list[str]:
        return [str(each) for each in self._model().translate(texts, threads=self.threads, **self._given(self._options))]

    def _arrow(self, values: Any, present: list[bool]) -> pyarrow.Array:
        import pyarrow

        rest = iter(values)
        return pyarrow.array([next(rest) if there else None for there in present], pyarrow.string())


_models: dict[tuple[Any, ...], Any] = {}
_lock = Lock()


def _with_column(batch: Any, name: str, column: Any) -> Any:
    if name in batch.schema.names:
        return batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch.append_column(name, column)
