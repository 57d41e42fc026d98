"""Persons of the American Community Survey 2018, coded as the papers code a census: for BSG, for NIST's third score.

Both are of public rows of seven western states. The papers had other years: ACS 2013 of all states, and 1940.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from weft.marginals.domain import Domain
from weft.marginals.records import Records

SOURCE = "acs_pums2018_west"
SIZES = {
    "AGEP": 80, "COW": 8, "SCHL": 24, "MAR": 5, "OCCP": 25, "RELP": 18, "RAC1P": 5, "SEX": 2, "WKHP": 100, "WAOB": 8,
    "WAGP": 2,
}  # fmt: skip
OCCUPATIONS = [
    10, 500, 800, 1005, 1305, 1600, 2001, 2100, 2205, 2600, 3000, 3601, 3700, 4000, 4200, 4330, 4700, 5000, 6005, 6200,
    6800, 7000, 7700, 9005, 9800,
]  # fmt: skip
"""First code of each of the 25 groups in which the census bureau puts occupations."""
RACES = [0, 1, 2, 2, 2, 3, 3, 4, 4]
"""As in Adult: white, black, American Indian or Alaskan, Asian or Pacific, other."""
BUCKETS: Mapping[str, int | Sequence[int]] = {"AGEP": 10, "WKHP": 15, "SCHL": [*[0] * 15, *[1] * 2, *range(2, 9)]}
"""Ages by ten years, hours by fifteen; no high-school diploma, and a diploma but no college, one bucket each."""

AREA, GENDER, WAGE = "AREA", "SEX", "WAGP"
WAGE_STEP, WAGE_STEPS = 5_000, 40
WAGE_VALUES = np.arange(WAGE_STEPS) * WAGE_STEP + WAGE_STEP / 2
"""What each code of a wage stands for: the middle of its step; the last one is open."""


def eleven(table: pa.Table) -> Records:
    """Code the eleven attributes as in BSG's section 4: rows without a missing value, of people over 16 who worked."""
    rows = {name: table[name].to_numpy() for name in SIZES}
    complete = np.all([table[name].is_valid().to_numpy() for name in SIZES], axis=0)
    columns = {name: column[complete].astype(int) for name, column in rows.items()}
    # Class of worker 9 and occupation 9920 are people who did not work: no valid value.
    valid = (columns["AGEP"] > 16) & (columns["COW"] < 9) & (columns["OCCP"] < 9900)
    columns = {name: column[valid] for name, column in columns.items()}
    columns["AGEP"] -= 17
    for name in ("COW", "SCHL", "MAR", "SEX", "WAOB"):
        columns[name] -= 1
    columns["OCCP"] = np.searchsorted(OCCUPATIONS, columns["OCCP"], side="right") - 1
    columns["RAC1P"] = np.array(RACES)[columns["RAC1P"] - 1]
    columns["WAGP"] = (columns["WAGP"] > 50_000).astype(int)
    return Records.of(Domain(tuple(SIZES), tuple(SIZES.values())), [columns[name] for name in SIZES])


def wages(table: pa.Table) -> Records:
    """Code area, gender and wage, with what goes with wages: people who earn one.

    The areas are the census' own (a state's PUMA), in place of the cities of 1940; which of them there are is public.
    """
    names = ("ST", "PUMA", "SEX", "WAGP", "AGEP", "SCHL", "MAR", "RAC1P", "WKHP")
    complete = np.all([table[name].is_valid().to_numpy() for name in names], axis=0)
    columns = {name: table[name].to_numpy()[complete].astype(int) for name in names}
    earning = (columns["WAGP"] > 0) & (columns["AGEP"] > 16)
    columns = {name: column[earning] for name, column in columns.items()}
    areas, area = np.unique(100_000 * columns["ST"] + columns["PUMA"], return_inverse=True)
    coded = {
        AREA: (area, len(areas)),
        GENDER: (columns["SEX"] - 1, 2),
        WAGE: (np.minimum(columns["WAGP"] // WAGE_STEP, WAGE_STEPS - 1), WAGE_STEPS),
        "AGEP": (np.minimum((columns["AGEP"] - 17) // 5, 15), 16),
        "SCHL": (columns["SCHL"] - 1, 24),
        "MAR": (columns["MAR"] - 1, 5),
        "RAC1P": (np.array(RACES)[columns["RAC1P"] - 1], 5),
        "WKHP": (np.minimum(columns["WKHP"] // 10, 9), 10),
    }
    domain = Domain(tuple(coded), tuple(size for _, size in coded.values()))
    return Records.of(domain, [codes for codes, _ in coded.values()])


CODED = {"acs2018_11": eleven, "acs2018_wages": wages}
"""Tables that are made from the source as they are opened."""
