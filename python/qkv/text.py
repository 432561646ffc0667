"""Results of encoders with a head on texts: ranks, classes, masked words, labels of words, answers.

Each opens a folder of transformers' class for its task, with a tokenizer.json. What it says of a text has the same bits
for any other texts and any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from . import _qkv
from .model import Model, list_of, shown
from .pictures import ClassProbability
from .reports import Report

Aggregation = Literal["none", "simple", "first", "average", "max"]


@dataclass(frozen=True)
class TaggedSpan:
    """A word of a text, or several, with their label; text[start:end] is the part."""

    label: str
    score: float
    word: str
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """The part of a context that answers, context[start:end]; empty: there is no answer."""

    text: str
    score: float
    start: int
    end: int


class Reranker(Model):
    """A cross-encoder of sentence-transformers with one label. predict() and rank() take CrossEncoder's arguments, and refuse,
    by name, those that they do not support.

    >>> import qkv
    >>> reranker = qkv.text.Reranker("tests/golden/rank")
    >>> reranker.rank("who", ["a cat sat", "the dog"], top_k=1)[0]["corpus_id"]
    1
    """

    _open = _qkv._Reranker

    def predict(
        self,
        inputs: Sequence[Sequence[str]] | tuple[str, str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Any = None,
        apply_softmax: bool | None = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
    ) -> Any:
        """The score of each pair of a query and a text, float32 [pairs]; of a single pair its score.

        activation_fn: torch.nn.Identity() or Sigmoid(), instead of the folder's. show_progress_bar: on standard error, after
        every batch_size pairs; otherwise batch_size changes nothing: pairs are batched by their tokens, and the bits do not
        depend on it.
        """
        refused = {"prompt_name": prompt_name, "prompt": prompt, "apply_softmax": apply_softmax or None,
                   "device": None if device == "cpu" else device}  # fmt: skip
        for name, value in refused.items():
            if value is not None:
                raise ValueError(f"predict: {name}={value!r} is not supported")
        if batch_size < 1:
            raise ValueError(f"predict: batch_size must be 1 or more, got {batch_size}")
        if not hasattr(inputs, "__len__"):
            raise TypeError(f"predict: inputs must be a pair of texts or a list of pairs, got {type(inputs).__name__}")
        single = len(inputs) > 0 and isinstance(inputs[0], str)
        pairs: Any = [inputs] if single else inputs
        for number, pair in enumerate(pairs):
            if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise ValueError(f"predict: inputs[{number}] must be a pair of texts")
        scores = self._core.score(
            [first for first, _ in pairs], [second for _, second in pairs], _score(activation_fn), self.threads, batch_size,
            shown("pairs") if show_progress_bar else None,
        )  # fmt: skip
        if convert_to_tensor or not convert_to_numpy:
            import torch

            tensor = torch.from_numpy(scores)
            return tensor[0] if single else tensor if convert_to_tensor else list(tensor)
        return scores[0] if single else scores

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """The documents, best first: {"corpus_id", "score"}, with return_documents "text". Other options are predict()'s."""
        documents = list_of(documents, "documents")
        scores = self.predict([(query, document) for document in documents], **options)
        order = sorted(range(len(scores)), key=lambda i: (scores[i] != scores[i], -scores[i]))[:top_k]
        ranked: list[dict[str, Any]] = [{"corpus_id": i, "score": scores[i]} for i in order]
        if return_documents:
            ranked = [{**found, "text": documents[found["corpus_id"]]} for found in ranked]
        return ranked

    def explain(self, query: str, document: str) -> Report:
        """Which words the logit of a pair came from: its loss without each (knock-out), and gradient times weight."""
        return _reports(_qkv._explain_rank(self._core, query, document), self.explain)[0]


class Classifier(Model):
    """The classes of texts, by a folder of ForSequenceClassification.

    >>> import qkv
    >>> qkv.text.Classifier("tests/golden/rank").classify("The cat sat.")[0].label
    'LABEL_0'
    """

    _open = _qkv._TextClassifier

    @overload
    def classify(self, texts: str, top_k: int | None = 1) -> list[ClassProbability]: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, texts: Iterable[str | tuple[str, str]], top_k: int | None = 1) -> list[list[ClassProbability]]: ...
    def classify(self, texts: Any, top_k: int | None = 1) -> Any:
        """The top_k most probable classes of a text, in decreasing order, or a list of them for several texts; None: all. A
        text may be a pair, a tuple, which the model reads as one sequence."""
        given = list_of(texts)
        pairs = [each if isinstance(each, tuple) and len(each) == 2 else (each, None) for each in given]
        found = self._core.classify([first for first, _ in pairs], [second for _, second in pairs], top_k, self.threads)
        lists = [[ClassProbability(*each) for each in one] for one in found]
        return lists[0] if isinstance(texts, str) else lists

    def explain(self, text: str | tuple[str, str], label: str | None = None) -> Report:
        """Which words the log-probability of a label (None: the most probable one) came from: its loss without each
        (knock-out), and gradient times weight.

        >>> import qkv
        >>> print(qkv.text.Classifier("tests/golden/rank").explain("The cat sat.").title)
        What LABEL_0 came from
        """
        first, second = text if isinstance(text, tuple) else (text, None)
        return _reports(_qkv._explain_class(self._core, first, second, label), self.explain)[0]


class FillMask(Model):
    """Predicts masked words of texts, by a folder of ForMaskedLM.

    >>> import qkv
    >>> qkv.text.FillMask("tests/golden/fill").mask
    '[MASK]'
    """

    _open = _qkv._FillMask

    @property
    def mask(self) -> str:
        """The mask in a text."""
        return self._core.mask()

    def fill(self, text: str, top_k: int = 5) -> list[list[ClassProbability]]:
        """The top_k most probable words for each mask of the text, in decreasing order."""
        return [[ClassProbability(*each) for each in one] for one in self._core.fill(text, top_k, self.threads)]

    def explain(self, text: str, word: str | None = None) -> list[Report]:
        """For each mask, which other words the log-probability of this word (None: the most probable one) came from, as in
        Classifier.explain."""
        return _reports(_qkv._explain_fill(self._core, text, word), self.explain)


class Tagger(Model):
    """The words of texts with their labels, by a folder of ForTokenClassification.

    >>> import qkv
    >>> found = qkv.text.Tagger("tests/golden/tags").tag("The cat sat on the mat.")[0]
    >>> found.label, found.start, found.end
    ('NUM', 0, 3)
    """

    _open = _qkv._Tagger

    @overload
    def tag(  # type: ignore[overload-overlap]  # a str is an iterable of str
        self, texts: str, aggregation_strategy: Aggregation = "simple"
    ) -> list[TaggedSpan]: ...
    @overload
    def tag(self, texts: Iterable[str], aggregation_strategy: Aggregation = "simple") -> list[list[TaggedSpan]]: ...
    def tag(self, texts: Any, aggregation_strategy: Aggregation = "simple") -> Any:
        """The labelled words of a text, or a list of them for several. The strategies are as in transformers'
        token-classification pipeline: none labels tokens, simple joins neighbours of one label, first, average and max first
        give each word one label."""
        found = self._core.tag([texts] if isinstance(texts, str) else texts, aggregation_strategy, self.threads)
        lists = [[TaggedSpan(*each) for each in one] for one in found]
        return lists[0] if isinstance(texts, str) else lists

    def explain(self, text: str) -> list[Report]:
        """For each token with a label other than "O", which words that label came from, as in Classifier.explain."""
        return _reports(_qkv._explain_tags(self._core, text), self.explain)


class QuestionAnswerer(Model):
    """The part of a context that answers a question, by a folder of ForQuestionAnswering.

    >>> import qkv
    >>> qkv.text.QuestionAnswerer("tests/golden/answers").answer("Who sat on the mat?", "The cat sat on the mat.")[0].text
    'on the mat'
    """

    _open = _qkv._QuestionAnswerer

    def answer(
        self,
        question: str,
        context: str,
        *,
        top_k: int = 1,
        max_answer_len: int = 15,
        max_seq_len: int | None = None,
        doc_stride: int = 128,
        handle_impossible_answer: bool = False,
        align_to_words: bool = True,
    ) -> list[Answer]:
        """The top_k best answers, in decreasing order; arguments as in the question-answering pipeline of transformers 4.

        A context that does not fit together with the question is read in parts of max_seq_len tokens (384 unless the model
        reads fewer) that share doc_stride of them, at most half.
        """
        found = self._core.answer(
            question, context, top_k, max_answer_len, max_seq_len, doc_stride, handle_impossible_answer, align_to_words,
            self.threads,
        )  # fmt: skip
        return [Answer(*each) for each in found]

    def explain(self, question: str, context: str) -> Report:
        """Which words the best answer came from, as in Classifier.explain: the sum of the log-probabilities of its first and
        last token."""
        return _reports(_qkv._explain_answer(self._core, question, context), self.explain)[0]


def _reports(found: list[Any], method: Any) -> list[Report]:
    return [Report(each, f"qkv.text.{method.__qualname__}()") for each in found]


def _score(activation_fn: Any) -> str:
    if activation_fn is None:
        return "folder"
    names = {"Identity": "logit", "Sigmoid": "sigmoid"}
    name = type(activation_fn).__name__
    if name not in names:
        raise ValueError(f"predict: activation_fn={name} is not supported, only torch.nn.Identity() and Sigmoid()")
    return names[name]
