"""Runs HawkAPI's own tests of its bulkhead against the door `tidegate.compat.hawkapi`, and counts.

    python3.12 -m pip download --no-deps --no-binary :all: hawkapi==0.2.0 && tar xzf hawkapi-0.2.0.tar.gz
    cd hawkapi-0.2.0/tests/unit
    python3.12 -m pytest -q -p seed_hawkapi --noconftest -o asyncio_mode=auto test_bulkhead.py

A plugin of pytest, run by hand: HawkAPI's modules of these names are the door, and HawkAPI is not installed.
Its tests of the Redis backend need `fakeredis` and look at the keys of the backend, so they are not run.
"""

from __future__ import annotations

import sys
import types

from tidegate.compat import hawkapi as door

_HERE = {
    "hawkapi": [],
    "hawkapi.exceptions": ["HTTPException"],
    "hawkapi.middleware": [],
    "hawkapi.middleware.bulkhead": ["Bulkhead", "BulkheadFullError", "LocalBulkheadBackend", "bulkhead"],
}
for path, names in _HERE.items():
    module = types.ModuleType(path)
    module.__path__ = []
    for name in names:
        setattr(module, name, getattr(door, name))
    sys.modules[path] = module
    parent, _, name = path.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, module)
