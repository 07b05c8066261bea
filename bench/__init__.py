"""Measures what Ishiki costs, against the budgets it promises: `python -m bench --help`, and docs/performance.md.

Real processes, real sockets, logs on disk; memory and CPU time come from the kernel. Not shipped in the wheel.
"""
