"""Evaluate releases: metrics, query answers with standard errors, reports, and forecasts before budget is spent."""
