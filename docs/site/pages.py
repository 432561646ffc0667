"""Makes the pages of the site that have no source of their own: pages.py SOURCE MANUAL, where SOURCE is a copy of the
repository to write into and MANUAL a folder of the program's manual pages. Headers become pages of C++, manual pages
those of commands, and a link to a folder becomes text."""

import pathlib
import re
import subprocess
import sys

source, manual = map(pathlib.Path, sys.argv[1:])
reference = source / "docs" / "reference"

# Folder of headers, title, in the order of the site.
GROUPS = {
    ".": "Tensors, attention, threads, errors",
    "attention": "Attention: masks, biases, caches, derivatives, plans",
    "layers": "Layers",
    "models": "Models",
    "text": "Tokenizers",
    "decode": "Generating",
    "pipelines": "Embedder, translator, generator, classifier",
    "train": "Training",
    "explain": "Explaining",
}


def toctree(names, options=""):
    return "```{toctree}\n" + options + "\n".join(names) + "\n```\n"


def headers():
    root = source / "include" / "qkv"
    folders = {path.parent.relative_to(root).as_posix() for path in root.rglob("*.h")}
    if folders != set(GROUPS):
        sys.exit(f"pages.py: GROUPS does not name the folders of include/qkv: {folders ^ set(GROUPS)}")
    pages = []
    for folder, title in GROUPS.items():
        name = "basics" if folder == "." else folder
        pages.append(name)
        text = f"# {title}\n\n"
        for path in sorted((root / folder).glob("*.h")):
            header = path.relative_to(root.parent).as_posix()
            text += f"## {path.stem}\n\n`#include \"{header}\"`\n\n```{{doxygenfile}} {path.name}\n:project: qkv\n```\n\n"
        (reference / "cpp" / f"{name}.md").write_text(text)
    with (reference / "cpp" / "index.md").open("a") as index:
        index.write("\n" + toctree(pages, ":maxdepth: 1\n\n"))


def public():
    """What Doxygen says of headers, without private members, which it writes in any case."""
    for page in (source.parent / "doxygen" / "xml").glob("*.xml"):
        text = page.read_text()
        page.write_text(re.sub(r'<sectiondef kind="private-[^"]*">.*?</sectiondef>', "", text, flags=re.DOTALL))


def commands():
    folder = reference / "commands"
    folder.mkdir(parents=True)
    names = sorted(path.stem for path in manual.glob("*.1"))
    for name in names:
        page = subprocess.run(
            ["mandoc", "-T", "html", "-O", "fragment", str(manual / f"{name}.1")], check=True, capture_output=True, text=True
        ).stdout
        page = re.sub(r'<table class="(head|foot)">.*?</table>', "", page, flags=re.DOTALL)
        page = re.sub(r'<a class="permalink" href="#[^"]*">(.*?)</a>', r"\1", page, flags=re.DOTALL)
        page = re.sub(r"<(/?)h1", r"<\1h2", page)
        (folder / f"{name}.html").write_text(page)
        (folder / f"{name}.md").write_text(f"# {name.replace('-', ' ')}\n\n```{{raw}} html\n:file: {name}.html\n```\n")
    (folder / "index.md").write_text(
        "# Options of every command\n\nThe manual pages of the program, as `man qkv` shows them; `qkv COMMAND --help` has the same "
        "options.\n\n" + toctree(names, ":maxdepth: 1\n\n")
    )


def folders():
    """A link to a folder of the repository, which is no page, becomes its text."""
    for page in source.rglob("*.md"):
        text = page.read_text()
        plain = re.sub(r"\[([^]]*)\]\(([^)#]+)\)", lambda link: link[1] if (page.parent / link[2]).is_dir() else link[0], text)
        if plain != text:
            page.write_text(plain)


headers()
public()
commands()
folders()
