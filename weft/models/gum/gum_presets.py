"""Published GUM options, as in the authors' code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PRIVSYN: Mapping[str, Any] = MappingProxyType({"strategy": "half-duplicate", "iterations": 100, "length": 20})
"""PrivSyn: S5, alpha starts at 1 and is multiplied by 0.84 every 20 of 100 iterations."""

DPSYN: Mapping[str, Any] = MappingProxyType(
    {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.2, "decay": "constant"}
)
"""DPSyn in NIST's challenge: S5, constant alpha 0.2, 100 iterations."""

MCF: Mapping[str, Any] = MappingProxyType(
    {"strategy": "replace", "iterations": 100, "alpha": math.inf, "decay": "constant"}
)
"""Min-cost flow, PrivSyn's baseline: replace until every gap is closed at once."""
