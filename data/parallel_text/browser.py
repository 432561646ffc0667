"""Messages of Firefox and Thunderbird and their translations, from two language packs of one program (zip files): Fluent
(.ftl), properties of Java (.properties) and entities of a DTD (.dtd)."""
import html
import io
import json
import re
import zipfile

from . import messages

FLUENT = re.compile(r"(?P<id>-?[A-Za-z][\w-]*) *=(?P<text>.*)|[ ]+\.(?P<attribute>[A-Za-z][\w-]*) *=(?P<more>.*)")
PROPERTY = re.compile(r"\s*(?P<id>[^#!=:\s][^=:\s]*)\s*[=:]\s*(?P<text>.*)")
ENTITY = re.compile(r"""<!ENTITY\s+([\w.-]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
# Keys of the keyboard and sizes: no text of a language.
NO_TEXT = re.compile(r"(?:key|style|width|height)\d*$", re.IGNORECASE)
# What messages.PLACEHOLDER does not know: { $name }, #1, two plural forms about a semicolon, &entity;
PLACEHOLDER = re.compile(r"[{}]|#\d|\S;\S|&\w|^\S+/\S+$")


def read_fluent(content):
    """{id: text} of a .ftl file; an attribute's id is "id.attribute". Terms, whose ids begin with a hyphen, stay out."""
    found, current, owner = {}, None, None
    for line in content.splitlines():
        match = FLUENT.match(line)
        if match:
            owner = match["id"] or owner
            current = f"{owner}.{match['attribute']}" if match["attribute"] else owner
            found[current] = [(match["text"] or match["more"] or "").strip()]
        elif line.startswith("#"):
            current = None
        elif current:
            found[current].append(line.strip() or "\n")
    return {name: " ".join(lines).strip() for name, lines in found.items() if not name.startswith("-")}


def read_properties(content):
    def escaped(match):
        return chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t"}.get(match[2], match[2])

    lines = re.sub(r"\\\n\s*", "", content).splitlines()
    found = (PROPERTY.match(line) for line in lines)
    return {match["id"]: ESCAPE.sub(escaped, match["text"]) for match in found if match}


def read_entities(content):
    return {name: one or two for name, one, two in ENTITY.findall(COMMENT.sub("", content))}


READERS = {"ftl": read_fluent, "properties": read_properties, "dtd": read_entities}


def read_pack(content, name="language pack"):
    """{(file, id): text} of the bytes of a language pack; the language's name in a file's path is left out."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as pack:
            language = json.loads(pack.read("manifest.json"))["langpack_id"]
            files = {path: pack.read(path).decode("utf-8") for path in pack.namelist() if path.rpartition(".")[2] in READERS}
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise messages.FormatError(f"{name}: no language pack: {error}") from error
    found = {}
    for path, text in sorted(files.items()):
        place = tuple(part for part in path.split("/") if part != language)
        found.update({(place, key): value for key, value in READERS[path.rpartition(".")[2]](text).items()})
    return found


def clean(text):
    text = html.unescape(text).strip()
    return None if PLACEHOLDER.search(text) else messages.clean(text)


def pairs(english, other):
    """(English, translation) of two packs, as read_pack gives them: by file and id. What is longer than two words and equal
    on both sides was not translated."""
    for place, text in english.items():
        if place not in other or NO_TEXT.search(place[1]):
            continue
        both = clean(text), clean(other[place])
        if None not in both and min(map(len, both)) > 1 and (both[0] != both[1] or len(both[0].split()) < 3):
            yield both
