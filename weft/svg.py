"""What every drawing needs: its frame, its coordinates, its texts cut to their place."""

from __future__ import annotations

from html import escape


def svg(width: float, height: float, title: str, body: str, attributes: str = "", *, fixed: bool = True) -> str:
    """Wrap a drawing, with the sentence that stands for it where it cannot be seen; fixed: it keeps its size."""
    size = f' width="{px(width)}" height="{px(height)}"' if fixed else ""
    return (
        f'<svg viewBox="0 0 {px(width)} {px(height)}"{size} role="img" {attributes}>'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


def short(text: str, most: int) -> str:
    """Cut a text that is too long for its place."""
    return text if len(text) <= most else text[: most - 1] + "…"


def px(value: float) -> str:
    """Write a coordinate, to a tenth of a pixel."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
