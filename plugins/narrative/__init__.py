"""Engines `narrative`: a mind that tells itself the story of its chat, and speaks or acts as the story goes.

Two halves that belong together; README.md describes them. In a profile:

    context: {engine: narrative}
    toolcall: {engine: narrative}

Source: specification, engine system, `narrative`; the mark and what the stages write are our choice.
"""

from __future__ import annotations

from ishiki import provide

from .context import NarrativeContextEngine
from .toolcall import NarrativeToolcallEngine

__all__ = ["NarrativeContextEngine", "NarrativeToolcallEngine"]

provide(NarrativeContextEngine())
provide(NarrativeToolcallEngine())
