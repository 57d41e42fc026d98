"""The map of the house shows the rooms that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_room_is_on_the_map_and_every_place_on_it_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = {path.rstrip("/") for path in re.findall(r"`((?:weft|docs|tests)/[a-z_/.]*)`", text)}
    assert all((ROOT / path).exists() for path in named), [path for path in named if not (ROOT / path).exists()]
    rooms = {
        f"weft/{path.name}"
        for path in (ROOT / "weft").iterdir()
        if (path.is_dir() and (path / "__init__.py").exists()) or path.suffix == ".py"
    }
    assert rooms - named == {"weft/__init__.py"}


def test_a_page_holds_a_module_and_a_screen_a_function():
    for path in (ROOT / "weft").rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") < 350, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and not any("njit" in ast.unparse(d) for d in node.decorator_list):
                assert node.end_lineno - node.lineno < 60, (path, node.name)
