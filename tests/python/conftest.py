from __future__ import annotations

import os

# Before anything imports torch or starts the server that ranks are forked from. A run may choose the transport.
os.environ["OMP_NUM_THREADS"] = "1"
for name in [name for name in os.environ if name.startswith("UCXRING_") and name != "UCXRING_TRANSPORT"]:
    del os.environ[name]
