"""stubs.py STUB FILE: the signatures and docstrings of a stub as rows of C++, {name, signature, docstring} each."""

import ast
import json
import sys
from pathlib import Path


def rows(body, scope=""):
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name, "", ast.get_docstring(node) or ""
            yield from rows(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            documentation = ast.get_docstring(node) or ""
            node.body, node.decorator_list = [ast.Pass()], []
            yield scope + node.name, ast.unparse(node).splitlines()[0].rstrip(":"), documentation


text = Path(sys.argv[1]).read_text(encoding="utf-8")
Path(sys.argv[2]).write_text("".join(f"{{{', '.join(map(json.dumps, row))}}},\n" for row in rows(ast.parse(text).body)))
