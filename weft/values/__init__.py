"""Values as exact integers: their storage in Arrow types, their parsing from text, and the grids of their bins."""
