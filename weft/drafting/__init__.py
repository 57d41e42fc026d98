"""Draft schemas from tables for review, and check schemas before any budget is spent."""

from weft.drafting.draft import draft_source as draft_source
