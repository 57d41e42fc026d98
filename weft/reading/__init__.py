"""CSV files read as the schema says, in one declared dialect."""
