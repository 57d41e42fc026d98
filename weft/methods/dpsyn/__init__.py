"""DPSyn (JPC 2021): the method, and its model of separately synthesised groups of attributes."""
