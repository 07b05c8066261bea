"""Ishiki: a runtime for chat minds."""
