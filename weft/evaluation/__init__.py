"""How good a release is: metrics, counts with their errors, the report, and forecasts before a budget is spent."""
