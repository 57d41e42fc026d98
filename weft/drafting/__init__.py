"""A first schema guessed from a table, for a person to review; and what to know of a schema before paying."""

from weft.drafting.draft_sources import draft_source as draft_source
