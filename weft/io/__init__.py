"""Input and output of tables: files of all formats, databases and Spark; each row is read independently."""
