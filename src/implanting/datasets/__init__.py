"""Data sets in the formats people really have them -> an `ImageSet` for each split."""

from implanting.datasets.image_set import ImageSet, check_disjoint, shared_classes
from implanting.datasets.read import read_dataset
from implanting.datasets.splits import NAMED, SPLITS

__all__ = ["NAMED", "SPLITS", "ImageSet", "check_disjoint", "read_dataset", "shared_classes"]
