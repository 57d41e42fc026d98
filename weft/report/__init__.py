"""The report on a synthetic table: one page that can be read, printed or published, and its JSON twin.

Two editions. `measure_private` compares with the real rows and is for the curator's eyes; `measure_releasable` uses
released answers only and may go out with the data.
"""

from __future__ import annotations

from weft.report.figures import Report
from weft.report.measure import measure_private, measure_releasable
from weft.report.reading import read_records
from weft.report.render import render, write

__all__ = ["Report", "measure_private", "measure_releasable", "read_records", "render", "write"]
