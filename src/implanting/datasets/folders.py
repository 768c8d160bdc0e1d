"""Listings of image files: csv tables, or folders.

Tables are those of Ravi and Larochelle's miniImageNet: train.csv, val.csv, test.csv (filename,label) and the images.
Folders are train/, val/, test/ of class folders, or one folder of class folders that is split by class.
"""

from collections import defaultdict
from pathlib import Path

from implanting.datasets.assembling import Listing, Options, SplitReaders, readers_of_listings, refuse_splits
from implanting.datasets.splits import SPLITS, read_class_lists, read_csv, split_by_seed, split_name
from implanting.images import holds_images, list_class_folders, subfolders

FOLDERS = (
    "folders train, val, test with one sub-folder per class, or one folder with one sub-folder of images per class"
)


def find_folders(path: Path, options: Options) -> SplitReaders:
    """Find readers for a folder that contains class folders, split or not."""
    if not path.is_dir() or not any(holds_images(folder) for folder in subfolders(path)):
        return {}
    if split_folders := _split_folders(path):
        refuse_splits(path, options)
        listings = {split: Listing(*list_class_folders(folder)) for split, folder in split_folders.items()}
    else:
        listings = _listings_by_class(path, options)
    return readers_of_listings(path, listings, options)


def _split_folders(path: Path) -> dict[str, Path]:
    """Find folders named like splits that contain class folders; a class named train would contain images instead."""
    named = {split_name(folder.name): folder for folder in subfolders(path) if subfolders(folder)}
    return {split: named[split] for split in SPLITS if split in named}


def _listings_by_class(path: Path, options: Options) -> dict[str, Listing]:
    classes, skipped = list_class_folders(path)
    splits = options.splits or options.default_splits
    lists = read_class_lists(splits) if splits else split_by_seed(list(classes), options.split_seed)
    return {split: Listing({name: classes.get(name, []) for name in names}, skipped) for split, names in lists.items()}


TABLES = "train.csv, val.csv, test.csv with columns filename,label, and a folder images"


def find_tables(path: Path, options: Options) -> SplitReaders:
    """Find readers for a folder with one csv file per split."""
    if not path.is_dir():
        return {}
    tables = {split_name(file.stem): file for file in sorted(path.iterdir()) if file.suffix.lower() == ".csv"}
    listings = {split: _listing_of(tables[split]) for split in SPLITS if split in tables}
    if listings:
        refuse_splits(path, options)
    return readers_of_listings(path, listings, options)


def _listing_of(table: Path) -> Listing:
    folder = table.parent / "images"
    folder = folder if folder.is_dir() else table.parent
    classes: dict[str, list[Path]] = defaultdict(list)
    for row in read_csv(table, "filename", "label"):
        classes[row["label"]].append(folder / row["filename"])
    return Listing(dict(classes))
