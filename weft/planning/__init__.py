"""What a run would give, before anything is spent: from the schema, a number of rows and a budget alone."""

from weft.planning.plan import Plan, plan

__all__ = ["Plan", "plan"]
