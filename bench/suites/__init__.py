"""asv suites: the functions of bench.micro over the commits of main (see ../asv.conf.json)."""

import sys
from pathlib import Path

# asv imports this package by itself, with only its parent directory on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
