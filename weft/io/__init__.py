"""Tables where they are: files of every format, text in a declared dialect, DuckDB; each row read by itself."""
