"""How the papers adjust records: options of GUM by name, as their authors' code has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PRIVSYN: Mapping[str, Any] = MappingProxyType({"strategy": "half-duplicate", "iterations": 100, "length": 20})
"""PrivSyn: S5, alpha from 1 by steps of 0.84 every 20 of 100 iterations."""

DPSYN: Mapping[str, Any] = MappingProxyType(
    {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.2, "decay": "constant"}
)
"""DPSyn in NIST's challenge: S5, alpha 0.2 in each of 100 iterations."""

MCF: Mapping[str, Any] = MappingProxyType(
    {"strategy": "replace", "iterations": 100, "alpha": math.inf, "decay": "constant"}
)
"""Min-cost flow, PrivSyn's strawman: every gap is closed at once by replacing."""
