"""Side by side with what a user would pick instead: `make bench-peers`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))  # the data sets are those of `make bench-accuracy`
