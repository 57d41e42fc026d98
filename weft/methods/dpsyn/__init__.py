"""DPSyn (JPC 2021): the method, and groups of columns that are joined record by record."""
