"""Quality report on a synthetic table: one self-contained HTML page, and the same figures as JSON.

`private_report` compares with the real rows and is for the curator only; `releasable_report` uses released
measurements only and may be published with the data. Both require evidence that the model generated the table: the
card next to the file, or rows that the report samples itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.evaluation.report.editions import private_report as private_report
    from weft.evaluation.report.editions import releasable_report as releasable_report
    from weft.evaluation.report.report_figures import Report as Report
    from weft.evaluation.report.report_page import render as render
    from weft.evaluation.report.report_page import write as write

_HOME = {
    "Report": "report_figures",
    "private_report": "editions",
    "releasable_report": "editions",
    "render": "report_page",
    "write": "report_page",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # Imported on first use: the summary of a run needs only one module of this package.
    if name in _HOME:
        return getattr(import_module(f"weft.evaluation.report.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
