"""How things show themselves in a notebook: a line that says what they are, and a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def said(thing: object) -> str:
    """Return what a thing says of itself, as code."""
    return f"<code>{html.escape(repr(thing))}</code>"


def sheet(told: str, head: Sequence[str], rows: Iterable[Sequence[object]], after: str = "") -> str:
    """Return a line, a table and perhaps another line as HTML; every word is text, whatever signs are in it.

    >>> sheet("two columns", ["name"], [["a"], ["<b>"]])
    '<p><b>two columns</b></p><table><tr><th>name</th></tr><tr><td>a</td></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """

    def row(tag: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", cells) for cells in rows)
    below = f"<p>{html.escape(after)}</p>" if after else ""
    return f"<p><b>{html.escape(told)}</b></p><table>{row('th', head)}{body}</table>{below}"


def framed(page: str, height: int = 600) -> str:
    """Return a whole page in a frame of its own, which can reach nothing of the notebook's."""
    inside = html.escape(page, quote=True)
    return f'<iframe srcdoc="{inside}" sandbox="allow-scripts" width="100%" height="{height}"></iframe>'
