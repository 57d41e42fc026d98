"""The report on a synthetic table: one page that can be read, printed or published, and its JSON twin.

Two editions. `private_report` compares with the real rows and is for the curator's eyes; `releasable_report` uses
released answers only and may go out with the data. What they call a release must be shown to be one: by the card
beside the file, or by drawing the rows themselves.
"""

from __future__ import annotations

from weft.report.editions import private_report, releasable_report
from weft.report.figures import Report
from weft.report.reading import read_records
from weft.report.render import render, write

__all__ = [
    "Report",
    "private_report",
    "read_records",
    "releasable_report",
    "render",
    "write",
]
