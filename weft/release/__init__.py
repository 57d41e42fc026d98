"""What leaves: the model file, the table and its card, the statements on it, and how files are written and checked."""
