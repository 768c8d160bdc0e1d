"""Read data sets in their published formats: one `ImageSet` per split, and fixed views of its images.

Only this room reads pickles and archives, and it runs none of their code.
"""

from implanting.datasets.digits import BASE_DIGITS, NOVEL_DIGITS, read_digits
from implanting.datasets.image_set import ImageSet, check_disjoint, shared_classes
from implanting.datasets.read import read_dataset
from implanting.datasets.splits import read_class_lists
from implanting.datasets.views import add_views, rows_of

__all__ = [
    "BASE_DIGITS",
    "NOVEL_DIGITS",
    "ImageSet",
    "add_views",
    "check_disjoint",
    "read_class_lists",
    "read_dataset",
    "read_digits",
    "rows_of",
    "shared_classes",
]
