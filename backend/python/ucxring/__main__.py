"""`python -m ucxring` and the command `ucxring`."""

from __future__ import annotations

from ucxring.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
