"""PrivBayes (TODS 2017) and its variants PrivBayes(InDif) and PB-PGM."""
