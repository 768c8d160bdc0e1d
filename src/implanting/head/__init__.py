"""The head: logistic regression on several readings of an image, trained on a task's supports.

This room turns vectors into scores. Other rooms know where the readings come from and how scores become answers.
"""

from implanting.head.logistic_head import Fitted, Head, HeldOutScores, fit_head

__all__ = ["Fitted", "Head", "HeldOutScores", "fit_head"]
