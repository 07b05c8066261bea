"""Wakeup engines: when a turn starts."""
