"""Find problems among the examples of a classifier, and suggest which photos to label next.

Everything is computed from cross-fitted answers (the predictions for an example by a classifier fitted without it) and
from thumbnails. The results are plain values: this room prints nothing and changes no file of the user.
"""

from implanting.advice.checking import Confused, Findings, Mislabelled, check
from implanting.advice.copies import Copies, find_copies, thumbnails_of
from implanting.advice.examples import Examples, examples_of
from implanting.advice.sentences import sentences
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
    "sentences",
    "suggest",
    "thumbnails_of",
]
