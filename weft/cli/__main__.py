"""Run the command line as `python -m weft.cli`, where the `weft` script is not on the path."""

from weft.cli import main

main()
