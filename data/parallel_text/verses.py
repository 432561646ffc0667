"""Verses of a SWORD module in the compressed format zText, and pairs of verses of two of them.

A testament is three files: .bzs, one block a record (offset, compressed size, size: 3 x u32); .bzv, one entry a record
(block u32, begin in the block u32, size u16); .bzz, the blocks, each deflated by zlib. Source: the SWORD library's
zverse.cpp and zstr.cpp, and the files themselves. Entries follow the module's canon: introductions of the module and the
testament, then for each book its introduction, for each chapter its introduction and its verses. An introduction of a
chapter names it in its markup, so that no table of any canon is needed here."""
import glob
import html
import re
import struct
import zlib

CHAPTER = re.compile(r'<chapter [^>]*?osisID="(\w+)\.(\d+)"[^>]*?sID=')
BOOK = re.compile(r'<div [^>]*?type="book"')
# Left out with all that is in them: notes, titles, and references. What remains of other elements is their text.
ASIDE = re.compile(r"<(note|title|reference)\b[^>]*?(?:/>|>.*?</\1>)", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
JOINT = re.compile(r"(<note\b[^>]*>.*?</note>|<transChange\b[^>]*>.*?</transChange>)", re.DOTALL)


def read_entries(blocks, index, data):
    """The entries of a testament, from the bytes of its three files."""
    texts = []
    for begin, size, _ in struct.iter_unpack("<III", blocks):
        texts.append(zlib.decompress(data[begin : begin + size]))
    return [texts[block][begin : begin + size].decode("utf-8") if size else ""
            for block, begin, size in struct.iter_unpack("<IIH", index)]


def clean(markup):
    """The words of a verse: without notes and titles, without tags, with single spaces."""
    text = JOINT.sub(r" \1 ", markup)  # the file has no space beside these
    text = html.unescape(TAG.sub("", ASIDE.sub("", text)))
    text = text.replace("\u00b6", " ")  # the sign of a paragraph
    text = re.sub(r"\s+([,.;:?!\u2019\u201d)])", r"\1", " ".join(text.split()))
    return re.sub(r"([(\u00bf\u00a1\u201c])\s+", r"\1", text)


def chapters(entries):
    """{(book, chapter): [verse 1, verse 2, ...]}, cleaned."""
    found = {}
    verses = None
    for entry in entries:
        chapter = CHAPTER.search(entry)
        if chapter:
            verses = found.setdefault((chapter[1], int(chapter[2])), [])
        elif BOOK.search(entry):
            verses = None
        elif verses is not None:
            verses.append(clean(entry))
    for verses in found.values():
        while verses and not verses[-1]:
            verses.pop()
    return found


def modules(root, testament="*"):
    """The chapters() of each testament ("nt", "ot") of the modules in an unpacked package."""
    for blocks in sorted(glob.glob(f"{glob.escape(root)}/usr/share/sword/modules/texts/ztext/*/{testament}.bzs")):
        files = (open(blocks[: -len("bzs")] + ending, "rb") for ending in ("bzs", "bzv", "bzz"))
        contents = []
        for file in files:
            with file:
                contents.append(file.read())
        yield chapters(read_entries(*contents))


def pairs(english, other):
    """(English, translation) of verses with one number, from chapters() of two modules. Chapters that the two divide into
    different numbers of verses, or leave a verse of empty, are left out: numbers mean different verses there."""
    for name, verses in english.items():
        translated = other.get(name, [])
        if len(verses) == len(translated):
            yield from (pair for pair in zip(verses, translated) if all(pair))
