"""Pickle files, one per split, as published for FC100, CIFAR-FS and miniImageNet.

FC100_{train,val,test}.pickle, CIFAR_FS_{...}.pickle (MetaOptNet): data, labels, perhaps names.
miniImageNet_category_split_{train_phase_train,train_phase_val,train_phase_test,val,test}.pickle (Gidaris and
Komodakis): data, labels, catname2label; train_phase_train is our train, and the other two train phases are further
images of its classes. mini-imagenet-cache-{train,val,test}.pkl (Ren et al.): image_data, class_dict.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from implanting.datasets.assembling import Options, SplitReaders, refuse_splits, set_of_arrays
from implanting.datasets.image_set import ImageSet
from implanting.datasets.safe_pickle import as_text, load_pickle
from implanting.datasets.splits import split_name
from implanting.errors import DataError

LOOKED_FOR = (
    "FC100_train.pickle, CIFAR_FS_train.pickle, miniImageNet_category_split_*.pickle, mini-imagenet-cache-*.pkl"
)
FILE_NAME = re.compile(
    r"(?P<set>.+?)[_-](?P<split>train_phase_(train|val|test)|train|val|valid|validation|test)\.(pickle|pkl)", re.I
)
TRAIN_PHASES = ("train_phase_val", "train_phase_test")
"""Additional splits of the miniImageNet pickles, with other images of the base classes."""
LARGEST_ID = 2**62
"""The largest absolute value of a numeric class id."""
SET_NAMES = {
    "fc100": "FC100",
    "cifar_fs": "CIFAR-FS",
    "miniimagenet_category_split": "miniImageNet",
    "mini-imagenet-cache": "miniImageNet",
}


def find(path: Path, options: Options) -> SplitReaders:
    """Find readers for the pickles of one data set in a folder, or for a single pickle."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    found: dict[str, dict[str, Path]] = {}
    for file in files:
        if match := FILE_NAME.fullmatch(file.name):
            found.setdefault(match["set"].lower(), {})[split_name(match["split"])] = file
    if len(found) > 1:
        raise DataError(f"{path} holds the pickles of {len(found)} data sets ({', '.join(found)}): give each a folder")
    for name, by_split in found.items():
        refuse_splits(path, options)
        name = SET_NAMES.get(name, name)
        return {split: partial(read, file, f"{name} {split}", options) for split, file in by_split.items()}
    return {}


def read(path: Path, name: str, options: Options) -> ImageSet:
    """Read one split from its file."""
    content = load_pickle(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} holds a {type(content).__name__}; needed is a dictionary with data and labels")
    images = _images(content, path)
    return set_of_arrays(name, images, _class_ids(content, len(images), path), _names(content, path), options)


def _images(content: dict[str, Any], path: Path) -> np.ndarray:
    images = content.get("data", content.get("image_data"))
    if not isinstance(images, np.ndarray):
        raise DataError(f"{path} has keys {_keys(content)}; needed is an array 'data' or 'image_data'")
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise DataError(f"{path}: data is {in_words(images)}; needed is uint8 [image, height, width, 3]")
    if images.size == 0:
        raise DataError(f"{path} holds no images: get it again")
    return images


def _class_ids(content: dict[str, Any], count: int, path: Path) -> list[Any]:
    if content.get("labels") is not None:
        ids = [as_text(label) for label in list_of(content["labels"], str(path), "labels")]
    elif isinstance(content.get("class_dict"), dict):
        ids = _ids_from_indices(content["class_dict"], count, path)
    else:
        raise DataError(f"{path} has keys {_keys(content)}; needed are a list 'labels' or a dictionary 'class_dict'")
    for index, class_id in enumerate(ids):
        if isinstance(class_id, bool) or not isinstance(class_id, int | np.integer | str):
            raise DataError(
                f"{path}: label of image {index} is {type(class_id).__name__}; needed is a number or a name"
            )
        if not isinstance(class_id, str) and not -LARGEST_ID <= class_id <= LARGEST_ID:
            raise DataError(f"{path}: label of image {index} is beyond {LARGEST_ID}: get it again")
    if len({isinstance(class_id, str) for class_id in ids}) > 1:
        raise DataError(f"{path}: some labels are numbers and some are names; needed is one or the other")
    if len(ids) != count:
        raise DataError(f"{path} has {count} images and {len(ids)} labels; needed is one label per image")
    return ids


def _ids_from_indices(indices_by_class: dict[str, Any], count: int, path: Path) -> list[Any]:
    ids: list[str | None] = [None] * count
    for name, indices in indices_by_class.items():
        name_of_class(name, str(path))
        for index in list_of(indices, str(path), f"class '{name!s:.40}'"):
            if isinstance(index, bool) or not isinstance(index, int | np.integer):
                raise DataError(f"{path}: class '{name}' lists {index!r:.40}; needed are numbers of images")
            if not 0 <= index < count:
                raise DataError(
                    f"{path}: class '{name}' has image {index} of {count}; the file is damaged: get it again"
                )
            ids[index] = name
    if None in ids:
        raise DataError(f"{path}: image {ids.index(None)} is in no class; the file is damaged: get it again")
    return ids


def _names(content: dict[str, Any], path: Path) -> dict[Any, str]:
    """Return class names by id, if the file has them."""
    if isinstance(content.get("catname2label"), dict):
        pairs = [(class_id, name) for name, class_id in content["catname2label"].items()]
    else:
        names = content.get("names")
        pairs = list(names.items()) if isinstance(names, dict) else []
    for class_id, _ in pairs:
        if not isinstance(class_id, int | np.integer | str | bytes):
            raise DataError(f"{path}: a class has the id {class_id!r:.40}; needed is a number or a name")
    return {as_text(class_id): name_of_class(name, str(path)) for class_id, name in pairs}


def list_of(values: Any, where: str, name: str) -> list[Any]:
    """Convert a list or a one-dimensional array to a list; anything else is an error."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values.tolist()
    if not isinstance(values, list | tuple):
        raise DataError(f"{where}: {name} is {in_words(values)}; needed is a list")
    return list(values)


def name_of_class(name: Any, where: str) -> str:
    """Return the name of a class as text; anything else is an error."""
    text = as_text(name)
    if not isinstance(text, str):
        raise DataError(f"{where}: a class is named {in_words(name)}; needed is text")
    return text


def in_words(value: Any) -> str:
    """Describe a value for a message: `uint8 [2, 3]`, or the name of its type."""
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"


def _keys(content: dict[Any, Any]) -> list[str]:
    return sorted(str(key)[:40] for key in content)[:20]
