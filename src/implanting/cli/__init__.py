"""The command line: one table of verbs, each in a module of its own under `verbs/`.

Verbs read flags, call the library and print. What they compute can be had from Python, in the same words.
"""

from implanting.cli.main import main

__all__ = ["main"]
