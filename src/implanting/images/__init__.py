"""Decode images (path, bytes, PIL image or array) to upright RGB uint8 pixels; resize, normalise, find them in folders.

In this room, labels are names of folders. It knows nothing about data sets or class numbers.
"""

from implanting.images.decoding import DRAFT_MARGIN, ImageSource, decode, list_sources, name_of, stored_size
from implanting.images.finding import find_images, folders_in
from implanting.images.folders import (
    LabelledImages,
    holds_images,
    inspect_folder,
    list_class_folders,
    other_files,
    read_folder,
    remark_on_others,
    subfolders,
    undecodable,
)
from implanting.images.many import BATCH, Failure, decode_all, decode_batches, resize_all
from implanting.images.preprocessing import RESIZING, Normalisation, Preprocessing, load, reflect, resize, views_of

__all__ = [
    "BATCH",
    "DRAFT_MARGIN",
    "RESIZING",
    "Failure",
    "ImageSource",
    "LabelledImages",
    "Normalisation",
    "Preprocessing",
    "decode",
    "decode_all",
    "decode_batches",
    "find_images",
    "folders_in",
    "holds_images",
    "inspect_folder",
    "list_class_folders",
    "list_sources",
    "load",
    "name_of",
    "other_files",
    "read_folder",
    "reflect",
    "remark_on_others",
    "resize",
    "resize_all",
    "stored_size",
    "subfolders",
    "undecodable",
    "views_of",
]
