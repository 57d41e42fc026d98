"""Queries on private rows that only methods of the laboratory ask; charged and answered by `QueryBase`."""
