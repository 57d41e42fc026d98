"""Questions to a fitted model: how many rows, of which values, and how far that may be off."""

from weft.answers.asking import MOST_BINS as MOST_BINS
from weft.answers.asking import ask as ask
from weft.answers.counts import Counts as Counts
