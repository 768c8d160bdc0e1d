"""Path, bytes, PIL image or array -> upright RGB uint8 pixels; resizing, normalisation; folders of images."""

from implanting.images.class_folders import list_class_folders, read_folder
from implanting.images.decoding import IMAGE_EXTENSIONS, PIXEL_LIMIT, ImageSource, decode
from implanting.images.many import AS_STORED, DEFAULT_SIZE, allocate, decode_all, reserve, resize_all
from implanting.images.normalisation import Normalisation
from implanting.images.preprocessing import Preprocessing
from implanting.images.resizing import RESIZING, load, resize

__all__ = [
    "AS_STORED",
    "DEFAULT_SIZE",
    "IMAGE_EXTENSIONS",
    "PIXEL_LIMIT",
    "RESIZING",
    "ImageSource",
    "Normalisation",
    "Preprocessing",
    "allocate",
    "decode",
    "decode_all",
    "list_class_folders",
    "load",
    "read_folder",
    "reserve",
    "resize",
    "resize_all",
]
