"""HTML representations for notebooks, number formatting, and parts of SVG charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import Any

from weft.errors import WeftError


def format_as_code(thing: object) -> str:
    """Return the repr of an object as an HTML code element."""
    return f"<code>{escape(repr(thing))}</code>"


def render_table_html(told: str, head: Sequence[str], rows: Iterable[Sequence[object]], after: str = "") -> str:
    """Return a heading, a table and an optional closing line as HTML; all text is escaped.

    >>> render_table_html("two columns", ["name"], [["a"], ["<b>"]])
    '<p><b>two columns</b></p><table><tr><th>name</th></tr><tr><td>a</td></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """

    def row(tag: str, cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row("td", cells) for cells in rows)
    below = f"<p>{escape(after)}</p>" if after else ""
    return f"<p><b>{escape(told)}</b></p><table>{row('th', head)}{body}</table>{below}"


@cache
def load_template(package: str, name: str, extra: str) -> Any:
    """Return a template of a page; WeftError names the extra to install if jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise WeftError(f"this page requires jinja2: pip install 'weft[{extra}]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=jinja2.select_autoescape(("html.j2",)),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return environment.get_template(name)


def frame_page(page: str, height: int = 600) -> str:
    """Return a page in a sandboxed frame, without access to the notebook."""
    inside = escape(page, quote=True)
    return f'<iframe srcdoc="{inside}" sandbox="allow-scripts" width="100%" height="{height}"></iframe>'


def format_count(n: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun in singular or plural.

    >>> format_count(1, "row"), format_count(2000, "row"), format_count(0, "family", "families")
    ('1 row', '2,000 rows', '0 families')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def format_percent(share: float) -> str:
    """Format a share as a percentage, with more decimals for small values.

    >>> format_percent(0.294), format_percent(0.0007), format_percent(0.3)
    ('29.4%', '0.07%', '30%')
    """
    text = f"{100 * share:.{1 if share >= 0.01 else 2}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"


def format_scales(scales: float | Sequence[float]) -> str:
    """Format the scale of noise, or the range of several."""
    each = scales if isinstance(scales, Sequence) else [scales]
    low, high = f"{min(each):.4g}", f"{max(each):.4g}"
    return low if low == high else f"{low} to {high}"


def wrap_svg(width: float, height: float, title: str, body: str, attributes: str = "", *, fixed: bool = True) -> str:
    """Wrap a drawing in an SVG element with a title as text alternative; `fixed` keeps its size.

    A drawing with links is a group, since the parts of an image cannot be reached.
    """
    role = "group" if "<a " in body else "img"
    size = f' width="{px(width)}" height="{px(height)}"' if fixed else ""
    return (
        f'<svg viewBox="0 0 {px(width)} {px(height)}"{size} role="{role}" {attributes}>'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


def shorten_text(text: str, most: int) -> str:
    """Truncate a text to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def px(value: float) -> str:
    """Format a coordinate, to a tenth of a pixel."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
