"""A fitted synthesizer in a notebook."""

from __future__ import annotations

import html

from weft.privacy import Ledger


def as_html(told: str, ledger: Ledger | None) -> str:
    """Return what a synthesizer says of itself, and what was asked, as HTML."""
    if ledger is None:
        return f"<code>{html.escape(told)}</code>"
    rows = "".join(
        f"<tr><td>{html.escape(entry.question)}</td><td>{html.escape(entry.noise)}</td>"
        f"<td>{ledger.share(entry, 1)}</td></tr>"
        for entry in ledger.entries
    )
    head = "<tr><th>asked of the private rows</th><th>noise</th><th>share of the budget</th></tr>"
    return f"<p><b>{html.escape(told)}</b></p><table>{head}{rows}</table>"
