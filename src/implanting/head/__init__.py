"""The head: logistic regression on several readings of an image, trained on a task's supports.

Vectors in, scores out. Which network the readings come from and how they become answers, other rooms know.
"""

from implanting.head.logistic_head import Fitted, Head, fit_head

__all__ = ["Fitted", "Head", "fit_head"]
