"""Values as exact integers: how Arrow types store them, how text spells them, and the grids they lie on."""
