"""What keeps a mind from talking too much: bounds on turns, tokens and words, and on talk between two bots.

* `turns`, `speech`, `partners`: one rule each, as a pure memory of what the log tells
* `channel`: all of them over one runtime; it holds the agent, tells the log, and marks facts that wake nobody

Source: design, guards.
"""
