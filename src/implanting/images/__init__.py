"""Path, bytes, PIL image or array -> upright RGB uint8 pixels; resizing, normalisation; folders of images.

Labels are names of folders here. What a data set or a class number is, this room does not know.
"""

from implanting.images.class_folders import holds_images, list_class_folders, subfolders
from implanting.images.decoding import ImageSource, decode, stored_size
from implanting.images.finding import find_images
from implanting.images.labelled import inspect_folder, read_folder, undecodable
from implanting.images.many import decode_all, resize_all
from implanting.images.preprocessing import RESIZING, Normalisation, Preprocessing, load, resize
from implanting.images.sources import list_sources
from implanting.images.streaming import Batch, Failure, decode_batches

__all__ = [
    "RESIZING",
    "Batch",
    "Failure",
    "ImageSource",
    "Normalisation",
    "Preprocessing",
    "decode",
    "decode_all",
    "decode_batches",
    "find_images",
    "holds_images",
    "inspect_folder",
    "list_class_folders",
    "list_sources",
    "load",
    "read_folder",
    "resize",
    "resize_all",
    "stored_size",
    "subfolders",
    "undecodable",
]
