from __future__ import annotations

import os

# Before anything imports torch or starts the server that ranks are forked from.
os.environ["OMP_NUM_THREADS"] = "1"
for name in [name for name in os.environ if name.startswith("UCXRING_")]:
    del os.environ[name]
