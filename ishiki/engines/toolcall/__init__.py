"""Toolcall engines: how the model writes tool calls."""
