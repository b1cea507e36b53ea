"""Print the one command line of README.md that ends in the given words."""

import sys
from pathlib import Path

ending = sys.argv[1]
lines = Path(__file__).parents[1].joinpath("README.md").read_text().splitlines()
found = {line.strip() for line in lines if line.strip().endswith(ending) and "&&" in line}
if len(found) != 1:
    sys.exit(f"README.md has {len(found)} different command lines that end in {ending!r}, but must have 1")
print(found.pop())
