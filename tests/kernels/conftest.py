"""Puts this folder on the path, so that the checks can be shared with the script that runs on a GPU."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
