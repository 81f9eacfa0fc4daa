"""Text of answers and records: the one place that prints them, for commands and for the inspector in a terminal.

What it returns `worker.adapters.terminal.Terminal` prints; its colours are those of `worker.inspector.view.wording`.
"""
