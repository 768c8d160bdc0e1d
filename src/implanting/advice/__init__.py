"""What the examples of a classifier say about themselves, and which photos to label next.

Everything is read from cross-fitted answers (what a classifier says of an example that it was not fitted to) and from
thumbnails. Plain values go out: nothing is printed here, and no file of the user is changed.
"""

from implanting.advice.checking import Confused, Findings, Mislabelled, check
from implanting.advice.copies import Copies, find_copies, thumbnails_of
from implanting.advice.examples import Examples, examples_of
from implanting.advice.suggesting import Suggestion, choose, suggest

__all__ = [
    "Confused",
    "Copies",
    "Examples",
    "Findings",
    "Mislabelled",
    "Suggestion",
    "check",
    "choose",
    "examples_of",
    "find_copies",
    "suggest",
    "thumbnails_of",
]
