"""`python -m weft.cli`: the command line where the `weft` script is not on the path."""

from weft.cli import main

main()
