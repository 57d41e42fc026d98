"""Baskets of items: their rows, and the queries on them, which no fit of a table makes."""
