"""Which pairs stay, and which part of the data each belongs to."""
import hashlib
import unicodedata

PARTS = ("train", "valid", "test")
NO_PUNCTUATION = str.maketrans("", "", ",.;:?!")
QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def key(english):
    """Pairs with one key are duplicates of each other."""
    return hashlib.sha256(english.lower().encode("utf-8")).hexdigest()


def letters(english):
    """What is left without case, spaces and punctuation."""
    return "".join(c for c in english.lower() if c.isalnum())


def part_of(english):
    """test, valid or train: by the key, so that a pair stays where it is whatever else comes and goes."""
    return {"0": "test", "1": "valid"}.get(key(english)[0], "train")


def is_printable(text):
    """No control characters, among them tab and newline, and none of private use."""
    return bool(text) and not any(unicodedata.category(c) in ("Cc", "Co", "Cs") for c in text)


def periods(pairs):
    """The pairs, and each that ends without punctuation with a period as well: people type both."""
    for english, other in pairs:
        yield english, other
        if english[-1].isalnum() and other[-1].isalnum():
            yield english + ".", other + "."


def spellings(pairs):
    """The pairs as people type them in a hurry: as they are, without punctuation and with a period, each also in lower and
    in upper case. The answer is the same; a period is answered by a period."""
    for english, other in pairs:
        forms = [(english, other), (english.translate(NO_PUNCTUATION), other), *list(periods([(english, other)]))[1:]]
        for form, answer in dict(forms).items():
            for text in dict.fromkeys((form, form.lower(), form.upper())):
                yield text, answer


def split(sources, always_train=(), by_letters=()):
    """{source: {part: pairs}} of {source: pairs}; of duplicates the first stays, in the order of sources. In the sources
    named by_letters, pairs whose English sides have the same letters and digits are duplicates, too: "Save as..." is not held
    out where "Save As" trains. Quotation marks and apostrophes of the English side become those that keyboards have."""
    seen, seen_letters = set(), set()
    result = {}
    for source, pairs in sources.items():
        parts = result[source] = {part: [] for part in PARTS}
        for english, other in pairs:
            english = english.translate(QUOTES)
            if not (is_printable(english) and is_printable(other)) or key(english) in seen:
                continue
            if source in by_letters and letters(english) in seen_letters:
                continue
            seen.add(key(english))
            seen_letters.add(letters(english))
            parts["train" if source in always_train else part_of(english)].append((english, other))
    return result
