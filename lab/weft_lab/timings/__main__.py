"""One timing, for the process that asked for it: its figures as JSON, on the last line."""

import json
import sys
from importlib import import_module

sys.stdout.write(json.dumps(import_module(f"weft_lab.timings.{sys.argv[1]}").figures("large" in sys.argv)) + "\n")
