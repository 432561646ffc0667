"""The documentation site, which scripts/docs builds: pages of docs/ and of the root, headers by Doxygen, Python's stub."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "docs"

project = "qkv"
author = "the qkv authors"
version = release = re.search(r"project\(qkv\s+VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

extensions = ["myst_parser", "breathe", "sphinx_design", "autoapi.extension"]
include_patterns = ["docs/**.md", "autoapi/**", "README.md", "models/*/README.md", "data/README.md", "examples/*.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md"]
root_doc = "docs/index"

myst_enable_extensions = ["colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"qkv {release}"
html_show_sphinx = html_show_copyright = False
html_copy_source = html_show_sourcelink = False

breathe_projects = {"qkv": str(BUILD / "doxygen" / "xml")}
breathe_default_project = "qkv"

autoapi_dirs = [str(ROOT / "python" / "qkv")]
autoapi_file_patterns = ["*.pyi", "*.py"]
autoapi_options = ["members", "undoc-members", "imported-members"]
autoapi_root = "autoapi"
autoapi_add_toctree_entry = False
autoapi_keep_files = True
# Array is in qkv and in qkv.arrays; each header opens namespace qkv; modules import each other's types.
suppress_warnings = ["ref.python", "duplicate_declaration.cpp", "autoapi.python_import_resolution"]


def setup(app):
    # A module of the name of its function, which qkv.torch has.
    app.connect("autoapi-skip-member", lambda app, what, name, obj, skip, options: skip or (what, name) == ("module", "qkv.torch.whole"))
