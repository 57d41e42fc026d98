"""The pages of the studio, in the order of the road: table, columns, budget, run, result."""
