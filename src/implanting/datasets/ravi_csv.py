"""miniImageNet in the style of Ravi and Larochelle: train.csv, val.csv, test.csv (filename,label) and the images."""

from collections import defaultdict
from pathlib import Path

from implanting.datasets.reading import Listing, Options, SplitReaders, readers_of_listings, refuse_splits
from implanting.datasets.splits import SPLITS, read_csv, split_name

LOOKED_FOR = "train.csv, val.csv, test.csv with columns filename,label, and a folder images"


def find(path: Path, options: Options) -> SplitReaders:
    """Readers for a folder with one csv file a split."""
    if not path.is_dir():
        return {}
    tables = {split_name(file.stem): file for file in sorted(path.iterdir()) if file.suffix.lower() == ".csv"}
    listings = {split: _listing(tables[split]) for split in SPLITS if split in tables}
    if listings:
        refuse_splits(path, options)
    return readers_of_listings(path, listings, options)


def _listing(table: Path) -> Listing:
    folder = table.parent / "images"
    folder = folder if folder.is_dir() else table.parent
    classes: dict[str, list[Path]] = defaultdict(list)
    for row in read_csv(table, "filename", "label"):
        classes[row["label"]].append(folder / row["filename"])
    return Listing(dict(classes))
