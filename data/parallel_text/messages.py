"""Messages of a program and their translations, from its .mo catalogues (GNU gettext manual, section "MO Files")."""
import html
import re
import struct

MAGIC = 0x950412DE

# What a program puts in at run time, and what only it can read: %1, %s, $(ARG1), ${name}, $NAME, #NAME#, {0}, %NAME,
# [name], identifiers with two underscores, paths and addresses, escapes.
PLACEHOLDER = re.compile(r"%[A-Za-z0-9]|\$[({A-Za-z0-9]|#[A-Za-z]+#|\{\w*\}|\[[a-z]+\]|_\S*_|\\|://|<|>|\n|\t|\|")
MNEMONIC = re.compile(r"[~_](?=[^\W_])")


class FormatError(Exception):
    """A file breaks a rule of its format."""


def read_catalogue(content, name="catalogue"):
    """Yields (message, translation) of the bytes of a .mo file; of plural forms the first."""
    if len(content) < 20:
        raise FormatError(f"{name}: {len(content)} bytes are too few for a catalogue")
    order = next((o for o in "<>" if struct.unpack_from(o + "I", content)[0] == MAGIC), None)
    if order is None:
        raise FormatError(f"{name}: not a .mo catalogue")
    count, originals, translations = struct.unpack_from(order + "III", content, 8)

    def text(table, i):
        at = table + 8 * i
        if at + 8 > len(content):
            raise FormatError(f"{name}: entry {i} lies outside the file")
        length, begin = struct.unpack_from(order + "II", content, at)
        if begin + length > len(content):
            raise FormatError(f"{name}: text {i} lies outside the file")
        return content[begin : begin + length].decode("utf-8").split("\0")[0]

    for i in range(count):
        message = text(originals, i)
        if message:  # the empty one is the catalogue's header
            yield message, text(translations, i)


def clean(text):
    """A message as a reader of the screen sees it, or None if a part of it is missing until run time."""
    text = text.rpartition("\x04")[2]  # what stands before is the context
    text = html.unescape(text)
    if PLACEHOLDER.search(text):
        return None
    text = " ".join(MNEMONIC.sub("", text).split())
    return text if any(c.isalpha() for c in text) else None


def pairs(catalogues):
    """(English, translation) of the catalogues, a mapping of names to bytes."""
    for name in sorted(catalogues):
        for message, translation in read_catalogue(catalogues[name], name):
            both = clean(message), clean(translation)
            if None not in both:
                yield both
