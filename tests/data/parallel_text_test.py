"""The parts of data/make-parallel, on made-up inputs. python3 -m unittest tests/data/parallel_text_test.py"""
import hashlib
import io
import json
import os
import struct
import sys
import unittest
import zipfile
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "data"))
from parallel_text import browser, messages, spelling, split, verses


def catalogue(pairs, order="<"):
    """The bytes of a .mo file as the gettext manual draws it."""
    texts = [text.encode("utf-8") for side in zip(*pairs) for text in side]
    begin = 28 + 8 * len(texts)
    table, data = b"", b""
    for text in texts:
        table += struct.pack(order + "II", len(text), begin + len(data))
        data += text + b"\0"
    header = struct.pack(order + "7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return header + table + data


class Messages(unittest.TestCase):
    def test_reads_both_byte_orders(self):
        pairs = [("", "header"), ("menu\x04~Open", "~Abrir"), ("one\0many", "uno\0muchos")]
        for order in "<>":
            self.assertEqual(list(messages.read_catalogue(catalogue(pairs, order))),
                             [("menu\x04~Open", "~Abrir"), ("one", "uno")])

    def test_refuses_what_is_no_catalogue(self):
        whole = catalogue([("", "h"), ("Open", "Abrir")])
        for broken in (b"", b"\0" * 40, whole[:40], whole[:-8]):
            with self.assertRaises(messages.FormatError):
                list(messages.read_catalogue(broken))

    def test_takes_off_context_and_mnemonics(self):
        self.assertEqual(messages.clean("menu\x04~Open File"), "Open File")
        self.assertEqual(messages.clean("_File &amp; more"), "File & more")
        self.assertEqual(messages.clean("Sa_ve  as"), "Save as")
        self.assertEqual(messages.clean("about ~ 5 cm"), "about ~ 5 cm")

    def test_leaves_out_placeholders_and_markup(self):
        for text in ("Page %1", "%PRODUCTNAME", "$(ARG1) files", "by $NAME", "#PERSON# wrote", "{0} pages", "<b>Bold</b>",
                     "one\ntwo", "a\\nb", "http://example.org", "MY_OWN_NAME", "12", ""):
            self.assertIsNone(messages.clean(text), text)

    def test_pairs_need_both_sides(self):
        content = catalogue([("", "h"), ("A", "B"), ("Page %1", "Página %1"), ("C", "")])
        self.assertEqual(list(messages.pairs({"x.mo": content})), [("A", "B")])


def language_pack(language, files):
    """The bytes of an .xpi with these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as pack:
        pack.writestr("manifest.json", json.dumps({"langpack_id": language}))
        for path, text in files.items():
            pack.writestr(path, text)
    return content.getvalue()


class Browser(unittest.TestCase):
    def test_reads_fluent(self):
        self.assertEqual(
            browser.read_fluent("# Comment = no\n-brand-name = Firefox\nopen = Open\n  the file\n    .label = Open it\n"
                                "    .accesskey = O\nlong =\n    One line,\n    another\n## Group\n    no text\nlast = Close\n"),
            {"open": "Open the file", "open.label": "Open it", "open.accesskey": "O", "long": "One line, another",
             "last": "Close"})

    def test_paragraphs_and_forms_of_fluent_are_no_messages(self):
        found = browser.read_fluent("a =\n    One.\n\n    Two.\nb = { $count ->\n    [one] File\n   *[other] Files\n}\nc = C d\n")
        self.assertEqual([browser.clean(found[name]) for name in "abc"], [None, None, "C d"])

    def test_reads_properties(self):
        self.assertEqual(
            browser.read_properties("# a = b\n! c = d\nopen.label=Open\nlong = one \\\n    two\nday : d\\u00EDa\nquote = a\\'b\\\\c\n"
                                    "lines = a\\nb\n"),
            {"open.label": "Open", "long": "one two", "day": "d\u00eda", "quote": "a'b\\c", "lines": "a\nb"})

    def test_reads_entities(self):
        self.assertEqual(
            browser.read_entities("<!-- <!ENTITY no \"no\"> -->\n<!ENTITY open.label \"Open &amp; close\">\n<!ENTITY say 'the \"word\"'>"),
            {"open.label": "Open &amp; close", "say": 'the "word"'})

    def test_leaves_out_placeholders_and_paths(self):
        for text in ("{ -brand-name } help", "Page #1", "%S files", "One file;two files", "&brandName; help", "&Yes", "GMT/UTC",
                     "<b>bold</b>", "&lt;name&gt;"):
            self.assertIsNone(browser.clean(text), text)
        self.assertEqual(browser.clean("Open &amp; close"), "Open & close")

    def test_pairs_by_file_and_id(self):
        english = language_pack("en-GB", {
            "localization/en-GB/a.ftl": "open = Open\n    .accesskey = Op\nnone = Not there\nsame = The Old Name\nname = Mozilla\n",
            "chrome/en-GB/locale/en-GB/b.properties": "open = Open it\nletter = O\n",
            "chrome/en-GB/locale/en-GB/c.dtd": '<!ENTITY open "Open all">', "icon.svg": "<svg/>"})
        spanish = language_pack("es-ES", {
            "localization/es-ES/a.ftl": "open = Abrir\n    .accesskey = Ab\nsame = The Old Name\nname = Mozilla\n",
            "chrome/es-ES/locale/es-ES/b.properties": "open = Abrirlo\nletter = A\n",
            "chrome/es-ES/locale/es-ES/c.dtd": '<!ENTITY open "Abrir todo">'})
        self.assertEqual(sorted(browser.pairs(browser.read_pack(english), browser.read_pack(spanish))),
                         [("Mozilla", "Mozilla"), ("Open", "Abrir"), ("Open all", "Abrir todo"), ("Open it", "Abrirlo")])

    def test_refuses_what_is_no_language_pack(self):
        empty = io.BytesIO()
        zipfile.ZipFile(empty, "w").close()
        whole = language_pack("en-GB", {"a.ftl": "a = A"})
        for broken in (b"", b"PK", empty.getvalue(), whole[:-30], whole.replace(b"langpack_id", b"langpack_no"),
                       language_pack("en-GB", {"a.ftl": b"a = \xff"})):
            with self.assertRaises(messages.FormatError):
                browser.read_pack(broken)


class Verses(unittest.TestCase):
    def test_reads_entries_out_of_blocks(self):
        blocks = ["onetwo".encode(), "día".encode()]
        packed = [zlib.compress(block) for block in blocks]
        index = struct.pack("<III", 0, len(packed[0]), 6) + struct.pack("<III", len(packed[0]), len(packed[1]), 4)
        entries = struct.pack("<IIH", 0, 0, 3) + struct.pack("<IIH", 0, 3, 3) + struct.pack("<IIH", 1, 0, 4)
        entries += struct.pack("<IIH", 7, 9, 0)  # an empty entry may point anywhere
        self.assertEqual(verses.read_entries(index, entries, b"".join(packed)), ["one", "two", "día", ""])

    def test_leaves_out_notes_and_titles(self):
        self.assertEqual(
            verses.clean('<title>A psalm</title><w lemma="x">In</w> the beginning, <w>God</w><note place="foot"><reference>'
                         "1:1 </reference>Elohim</note><w>created</w> all . "),
            "In the beginning, God created all.")
        self.assertEqual(verses.clean("de<transChange>que fué</transChange>Urías &amp; ( él )"), "de que fué Urías & (él)")

    def test_chapters_number_their_verses(self):
        entries = ["", "<milestone/>", '<div type="book" osisID="Gen"/>', '<chapter n="1" osisID="Gen.1" sID="Gen.1"/>',
                   "one", "", "three", "", '<chapter n="2" osisID="Gen.2" sID="Gen.2"/>', "one",
                   '<div type="book" osisID="Exod"/>', "not a verse"]
        self.assertEqual(verses.chapters(entries), {("Gen", 1): ["one", "", "three"], ("Gen", 2): ["one"]})

    def test_pairs_verses_of_equal_number(self):
        english = {("Gen", 1): ["a", "b"], ("Gen", 2): ["c"], ("Gen", 3): ["d", "e"], ("Tob", 1): ["x"]}
        other = {("Gen", 1): ["A", "B"], ("Gen", 2): ["C", "CC"], ("Gen", 3): ["", "E"]}
        self.assertEqual(list(verses.pairs(english, other)), [("a", "A"), ("b", "B"), ("e", "E")])


class Split(unittest.TestCase):
    def test_goes_by_the_first_hex_digit(self):
        parts = {"0": "test", "1": "valid"}
        for i in range(200):
            text = f"Sentence {i}"
            digit = hashlib.sha256(text.lower().encode()).hexdigest()[0]
            self.assertEqual(split.part_of(text), parts.get(digit, "train"))
            self.assertEqual(split.part_of(text), split.part_of(text.upper()))

    def test_the_first_of_duplicates_stays(self):
        english = next(f"Sentence {i}" for i in range(1000) if split.part_of(f"Sentence {i}") == "test")
        result = split.split({"phrases": [(english, "a")], "messages": [(english.upper(), "b"), ("Tab\there", "c")]},
                             always_train=("phrases",))
        self.assertEqual(result["phrases"], {"train": [(english, "a")], "valid": [], "test": []})
        self.assertEqual(result["messages"], {"train": [], "valid": [], "test": []})

    def test_duplicates_by_letters(self):
        held_out = next(f"Sentence {i}" for i in range(1000) if split.part_of(f"Sentence {i}") == "test")
        sources = {"messages": [(held_out, "a")], "browser": [(held_out + "...", "b"), ("New", "c"), ("New!", "d")]}
        self.assertEqual(sum(map(len, split.split(sources)["browser"].values())), 3)
        self.assertEqual(sum(split.split(sources, by_letters=("browser",))["browser"].values(), []), [("New", "c")])

    def test_quotation_marks_become_plain(self):
        parts = split.split({"verses": [("“It’s”", "«es»")]})["verses"]
        self.assertEqual(sum(parts.values(), []), [('"It\'s"', "«es»")])

    def test_periods(self):
        self.assertEqual(list(split.periods([("Thanks", "Gracias"), ("Why?", "¿Por qué?")])),
                         [("Thanks", "Gracias"), ("Thanks.", "Gracias."), ("Why?", "¿Por qué?")])

    def test_spellings(self):
        self.assertEqual(list(split.spellings([("No, thanks", "No, gracias")])),
                         [("No, thanks", "No, gracias"), ("no, thanks", "No, gracias"), ("NO, THANKS", "No, gracias"),
                          ("No thanks", "No, gracias"), ("no thanks", "No, gracias"), ("NO THANKS", "No, gracias"),
                          ("No, thanks.", "No, gracias."), ("no, thanks.", "No, gracias."),
                          ("NO, THANKS.", "No, gracias.")])
        self.assertEqual(list(split.spellings([("Why?", "¿Por qué?")])),
                         [(text, "¿Por qué?") for text in ("Why?", "why?", "WHY?", "Why", "why", "WHY")])


class Spelling(unittest.TestCase):
    def test_words_alone(self):
        self.assertEqual(spelling.modern("Y fué á casa, É hizo; dió fé"), "Y fue a casa, E hizo; dio fe")
        self.assertEqual(spelling.modern("está águila día"), "está águila día")


class PhraseBook(unittest.TestCase):
    def test_is_well_formed(self):
        folder = os.path.join(os.path.dirname(__file__), "..", "..", "data")
        with open(os.path.join(folder, "phrases.es.tsv"), encoding="utf-8") as file:
            pairs = [line.rstrip("\n").split("\t") for line in file]
        self.assertTrue(all(len(pair) == 2 and all(side and side == side.strip() for side in pair) for pair in pairs))
        # Without case and punctuation they still differ: each of these spellings has one answer.
        self.assertEqual(len({pair[0].lower().translate(split.NO_PUNCTUATION) for pair in pairs}), len(pairs))
        self.assertIn(["You are welcome", "De nada"], pairs)


if __name__ == "__main__":
    unittest.main()
