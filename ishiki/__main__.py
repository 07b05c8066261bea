"""`python -m ishiki`."""

from __future__ import annotations

import sys

from ishiki.cli import main

if __name__ == "__main__":
    sys.exit(main())
