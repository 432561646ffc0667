"""Every model class of transformers, tiny: attn_implementation="qkv" gives what "eager" gives, or is refused by name."""

import copy
import gc
import inspect
import re
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import qkv.transformers  # noqa: E402
import tiny_models  # noqa: E402
from transformers import PreTrainedModel  # noqa: E402

qkv.transformers.register()

# Classes that no tiny config or input of tiny_models.py fits, so that nothing was compared, by reason.
LEFT_OUT = {}
for part in (Path(__file__).parent / "model_classes.txt").read_text().split("# ")[1:]:
    reason, names = part.split("\n", 1)
    LEFT_OUT[reason] = names.split()
# Where "eager" itself is wrong: Nemotron takes logical_not of its masks, which are numbers then, and SeamlessM4Tv2 adds one
# of bool to the logits. Both are right under "sdpa".
SDPA_IS_RIGHT = frozenset(
    "NemotronAsrStreamingEncoder NemotronAsrStreamingForRNNT Nemotron3_5AsrForRNNT SeamlessM4Tv2SpeechEncoder "
    "SeamlessM4Tv2ForSpeechToText SeamlessM4Tv2ForSpeechToSpeech SeamlessM4Tv2Model".split()
)

LARGEST = 30e6  # parameters; what is larger with small sizes is not tiny


def made(kind, variant, implementation):
    torch.manual_seed(0)
    return kind._from_config(tiny_models.tiny_config(kind.config_class, variant), attn_implementation=implementation)


def own_modules(model):
    """The modules of a model without those of the models in it."""
    for name, child in model.named_children():
        if not isinstance(child, PreTrainedModel):
            yield child
            yield from own_modules(child)


def makes_masks(kind):
    names = set()
    for each in kind.__mro__:
        for function in vars(each).values():
            function = inspect.unwrap(function) if callable(function) else function
            if isinstance(function, types.FunctionType):
                names.update(function.__code__.co_names)
    return any(re.fullmatch(r"create_\w*mask\w*", name) for name in names)


def attends(model):
    """Whether anything of a model beside the models in it computes attention or makes masks."""
    return makes_masks(type(model)) or any(
        re.search("Attention|Attn", type(each).__name__) or isinstance(each, torch.nn.MultiheadAttention)
        for each in own_modules(model)
    )


def run(model, inputs):
    torch.manual_seed(2)
    with torch.no_grad():
        results = tiny_models.tensors_of(model(**copy.deepcopy(inputs)))
    return {name: each for name, each in results.items() if each.numel()}


def runnable(kind):
    """A model with "eager", inputs that fit it, its outputs and the variant of its config; else the reasons."""
    reasons = []
    reference = "sdpa" if kind.__name__ in SDPA_IS_RIGHT else "eager"
    for variant in tiny_models.VARIANTS:
        try:
            with torch.device("meta"):
                size = sum(parameter.numel() for parameter in made(kind, variant, reference).parameters())
            if size > LARGEST:
                raise ValueError(f"{size / 1e6:.0f} million parameters")
            model = made(kind, variant, reference).eval()
            with torch.no_grad():
                for parameter in model.parameters():  # sinks and tables that are not 0
                    if parameter.is_floating_point():
                        parameter.add_(0.05 * torch.randn(parameter.shape))
        except Exception as error:
            reasons.append(f"{variant}: {type(error).__name__}: {str(error)[:200]}")
            continue
        for attempt in range(4):
            try:
                inputs = tiny_models.inputs_of(model, attempt)
                outputs = run(model, inputs)
                assert outputs and any(each.isfinite().any() for each in outputs.values()), "no finite output"
                return model, inputs, outputs, variant
            except Exception as error:
                at = inspect.getinnerframes(error.__traceback__)[-1]
                place = f"{at.filename.split('/')[-1]}:{at.lineno}"
                reasons.append(f"{variant}: {type(error).__name__}: {str(error)[:200]} {place}")
    return reasons


def compared(expected, found, inputs):
    """What differs by more than 1e-4 of the largest value, padding left out."""
    names = ("decoder_attention_mask", "attention_mask", "input_features_mask")
    masks = [inputs[name].bool() for name in names if name in inputs]

    def real(values):
        for visible in masks:
            if values.dim() >= 2 and values.shape[:2] == visible.shape:
                return values[visible]
        if masks and values.dim() and values.shape[0] == 3:
            if masks[-1].shape[-1] == tiny_models.TOKENS:  # row 1 may begin with padding
                return values[[0, 2]]
            if values.dim() == 3:  # frames, of which only the first are real in row 2
                return torch.cat([values[:2].flatten(), values[2, : values.shape[1] // 4].flatten()])
        return values

    wrong = []
    for name, values in expected.items():
        if name not in found or found[name].shape != values.shape:
            wrong.append(f"{name}: no such output")
            continue
        mine, theirs = real(found[name]), real(values)
        finite = theirs.isfinite()
        if finite.any():
            error = float((mine - theirs)[finite].abs().max() / theirs[finite].abs().max().clamp(min=1e-3))
            if not error <= 1e-4:
                wrong.append(f"{name}: {error:.2g}")
    return wrong


def difference(kind, model, inputs, outputs, variant):
    """What differs under "qkv"."""
    ours = made(kind, variant, "qkv").eval()
    ours.load_state_dict(model.state_dict())
    wrong = compared(outputs, run(ours, inputs), inputs)
    if wrong:  # large weights can multiply rounding: the same in float64, where they are smaller
        inputs = {name: each.double() if each.is_floating_point() else each for name, each in inputs.items()}
        for each in (model, ours):
            each.double()
            with torch.no_grad():
                for parameter in each.parameters():
                    if parameter.dim() > 1:
                        parameter.mul_(0.5)
        wrong = compared(run(model, inputs), run(ours, inputs), inputs)
    return wrong


def meta_model(kind):
    """A model under "qkv" without memory; ValueError if it is refused; None if no config fits."""
    reasons = []
    for variant in tiny_models.VARIANTS:
        try:
            with torch.device("meta"):
                return made(kind, variant, "qkv"), reasons
        except ValueError as error:
            if 'attn_implementation="qkv"' in str(error):
                raise
            reasons.append(f"{variant}: {error}")
        except Exception as error:
            reasons.append(f"{variant}: {type(error).__name__}: {str(error)[:200]}")
    return None, reasons


def walk(kinds):
    """The verdict of each class: a word, and what belongs to it."""
    verdicts, covered, waiting = {}, set(), []
    gc.collect()
    gc.freeze()  # all of transformers, which each collection would go through

    def settle(kind, word, detail=""):
        verdicts[kind] = (word, detail)

    for kind in kinds:
        if not any("forward" in vars(each) for each in kind.__mro__ if each.__module__.startswith("transformers.")):
            settle(kind, "abstract")
            continue
        try:
            kind.get_correct_attn_implementation(kind.__new__(kind), "qkv")  # whatever its config
            model, reasons = meta_model(kind)
        except ValueError as error:
            settle(kind, "refused", str(error))
            continue
        if model is None:
            waiting.append((1000, kind, False, set()))
            continue
        parts = [type(each) for each in model.modules() if isinstance(each, PreTrainedModel)][1:]
        inner = set(parts)
        if not inner and not attends(model):
            covered.add(kind)
            settle(kind, "attends to nothing")
        else:
            waiting.append((len(parts), kind, attends(model), inner))
        del model
    for parts, kind, itself, inner in sorted(waiting, key=lambda each: each[0]):
        whole = bool(inner) and not itself and inner <= covered
        if whole and parts == 1:  # a head
            settle(kind, "parts")
            continue
        found = runnable(kind)
        if isinstance(found, list):
            settle(kind, "parts" if whole else "left out", "" if whole else found)
            continue
        try:
            wrong = difference(kind, *found)
        except Exception as error:
            if str(error).startswith('attn_implementation="qkv" does not know'):  # by the first layer
                settle(kind, "refused", str(error))
                continue
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            settle(kind, "wrong", wrong)
        else:
            covered.update(type(each) for each in found[0].modules() if isinstance(each, PreTrainedModel))
            settle(kind, "works")
        del found
        if len(verdicts) % 30 == 0:
            gc.collect()
    for kind, (word, _) in verdicts.items():
        if word == "left out" and kind in covered:  # ran as a part of another
            verdicts[kind] = ("parts", "")
    return verdicts


@pytest.fixture(scope="module")
def verdicts():
    kinds, _ = tiny_models.model_classes()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # thousands of tiny products, which cost more on two threads
    found = walk(kinds)
    torch.set_num_threads(threads)
    counts = {word: sum(each == word for each, _ in found.values()) for word, _ in found.values()}
    print(f"{len(found)} classes: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return found


def of_word(verdicts, word):
    return {kind.__name__: detail for kind, (each, detail) in verdicts.items() if each == word}


def test_no_class_differs_from_eager(verdicts):
    assert not of_word(verdicts, "wrong")
    assert len(of_word(verdicts, "works")) > 600


def test_refusals_name_a_class_and_what_is_right(verdicts):
    known = (
        r'[A-Z]\w+ (has attention of its own,|tells attn_implementation="qkv" that attention) .*'
        r'|attn_implementation="qkv" does not know \w+, which [A-Z]\w+ hands over .*'
    )
    for name, refusal in of_word(verdicts, "refused").items():
        assert re.fullmatch(rf'({known}); use attn_implementation="eager"( or "sdpa")?', refusal), (name, refusal)


def test_classes_that_are_left_out_are_listed(verdicts):
    left = of_word(verdicts, "left out")
    listed = {name for names in LEFT_OUT.values() for name in names}
    assert not {name: reasons for name, reasons in left.items() if name not in listed}, "not compared and not listed"
    elsewhere = {name for reason, names in LEFT_OUT.items() if "library" in reason for name in names}
    assert not listed - left.keys() - elsewhere, "listed, but compared or gone"


def test_modules_that_cannot_be_imported():
    assert set(tiny_models.model_classes()[1]) == {
        "transformers.models.higgs_audio_v2_tokenizer.modeling_higgs_audio_v2_tokenizer"  # needs torchaudio
    }
