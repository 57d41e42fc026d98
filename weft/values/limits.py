"""How many codes a column may have, and gets by default."""

MAX_CODES = 1_000_000
"""More codes than this in one column are refused: no table over them could be counted."""

EACH_LIMIT = 100
"""An integer or date column with at most this many possible values gets one code for each by default."""

DEFAULT_BINS = 32
"""Equal-width bins of a wider column, by default."""
