"""Names and texts of others inside Markdown and YAML, so that they stay text.

A column may be called `| <script>` or `# Public domain`, a file `---`: what a card shows of them must neither end its
table, nor open a heading, nor be read as a value of its head.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_SIGNS = re.compile(r"[\\`*\[\]<>|~&$]|(?<=:)//|(?<=www)\.", re.IGNORECASE)
_START = re.compile(r"^(\s*)(?:([#\-+=>_])|(\d+)([.)]))")
_JOINERS = "\u200c\u200d"
"""Signs without a shape that some scripts need."""


def text(value: object) -> str:
    r"""Return a text as Markdown shows it letter by letter, on one line.

    >>> text("# a|b\n<b>")
    '\\# a\\|b \\<b\\>'
    """
    return _START.sub(_escaped_start, _SIGNS.sub(r"\\\g<0>", plain(value)))


def _escaped_start(found: re.Match[str]) -> str:
    return found[1] + (f"\\{found[2]}" if found[2] else f"{found[3]}\\{found[4]}")


def plain(value: object) -> str:
    """Return a text on one line, without signs that have no shape: they could turn its order, or end a line."""
    return "".join(map(_shape, str(value)))


def _shape(sign: str) -> str:
    kind = unicodedata.category(sign)
    if kind in ("Cc", "Zl", "Zp"):
        return " "
    return "\N{REPLACEMENT CHARACTER}" if kind in ("Cf", "Cs", "Cn") and sign not in _JOINERS else sign


def code(value: object) -> str:
    """Return a text as a span of code, between more backticks than it has in a row."""
    shown = plain(value)
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def yaml(value: Any) -> str:
    """Return a plain value as YAML, of which JSON is a part."""
    return json.dumps(value)


def bullets(*lines: str) -> str:
    """Return lines as a list."""
    return "\n".join(f"- {line}" for line in lines)
