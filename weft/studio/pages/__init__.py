"""The pages of the studio, in the order of use: table, columns, budget, run, result."""
