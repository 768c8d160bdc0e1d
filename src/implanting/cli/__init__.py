"""The command line: one table of verbs, each in a module of its own under `verbs/`.

Verbs read flags, call the library and print. Everything they compute is also available from Python, by the same names.
"""

from implanting.cli.main import main
from implanting.cli.workers import end

__all__ = ["end", "main"]
