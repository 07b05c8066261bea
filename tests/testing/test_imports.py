"""What the kit may pull in."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import pkgutil, sys
import ishiki.testing
for module in pkgutil.walk_packages(ishiki.testing.__path__, "ishiki.testing."):
    __import__(module.name)
print([name for name in ("nonebot", "pytest", "litellm") if name in sys.modules])
"""


def test_the_kit_needs_no_host_no_test_runner_and_no_model_library() -> None:
    """Specification of the kit: third parties use it with any of them, or none."""
    loaded = subprocess.run([sys.executable, "-c", _CODE], check=True, capture_output=True, text=True, timeout=30)
    assert loaded.stdout.strip() == "[]"
