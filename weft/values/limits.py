"""How many codes a column may have, and gets by default."""

MAX_CODES = 1_000_000
"""More codes than this in one column are refused: no table over them could be counted."""

EACH_CODE = 1 << 17
"""A column of whole numbers with at most this many possible values gets one code for each by default."""

EACH_CELL = 8192
"""Possible values that are counted one by one, when a column is counted alone; more are counted in cells."""
