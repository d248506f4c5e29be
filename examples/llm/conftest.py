"""Lets the tests import the demo's modules as `demo.py` does."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
