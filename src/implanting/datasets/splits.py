"""The split into base, validation and novel classes: by a published list, a user's file, or randomly by a seed."""

import codecs
import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

import torch

from implanting.errors import DataError
from implanting.runtime import open_file

SPLITS = ("train", "val", "test")
"""The splits: base, validation and novel classes."""

ALIASES = {"valid": "val", "validation": "val", "train_phase_train": "train"}
"""Alternative names of splits."""

NAMED = ("fc100", "cifar-fs", "miniimagenet")
"""The published lists that come with this package."""

VAL_SHARE, TEST_SHARE = 0.16, 0.20
"""Shares of the classes when splitting by seed, as in miniImageNet; the rest is for training."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Byte order marks at the beginning of UTF-16 text."""

LONGEST = 256 * 2**20
"""Limit on the bytes of a table or a list; ImageNet's has 100 MB."""

ClassLists = dict[str, list[str]]


def split_name(name: str) -> str:
    """Return the usual name of a split."""
    return ALIASES.get(name.lower(), name.lower())


def read_class_lists(splits: str | Path) -> ClassLists:
    """Read the classes of each split, from a published list by name or from a JSON or csv file."""
    named = str(splits).lower().replace("_", "-")
    if named in NAMED:
        text = resources.files("implanting.datasets").joinpath("class_lists", f"{named}.json").read_text("utf-8")
        return _from_json(text, named)
    path = Path(splits)
    if not path.is_file():
        raise DataError(f"`splits` {splits} is neither an existing file nor one of {', '.join(NAMED)}")
    lists = _from_csv(path) if path.suffix.lower() == ".csv" else _from_json(text_of(path), str(path))
    check_lists(lists, str(path))
    return lists


def split_by_seed(names: Sequence[str], seed: int) -> ClassLists:
    """Split the classes in an order drawn from the seed: 64 % train, 16 % val, 20 % test.

    Each split gets at least one class if there are enough; train has priority, then test, then val.
    """
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed)).tolist()
    drawn = [sorted(names)[index] for index in order]
    test = max(1, round(TEST_SHARE * len(names))) if len(names) > 1 else 0
    val = max(1, round(VAL_SHARE * len(names))) if len(names) > 2 else 0
    train = len(names) - val - test
    lists = {"train": drawn[:train], "val": drawn[train : train + val], "test": drawn[train + val :]}
    return {split: sorted(classes) for split, classes in lists.items() if classes}


def check_lists(lists: Mapping[str, Iterable[str]], where: str) -> None:
    """Raise an error if a class is in two splits."""
    home: dict[str, str] = {}
    for split, classes in lists.items():
        for name in classes:
            if home.setdefault(name, split) != split:
                raise DataError(
                    f"{where}: class '{name}' is in both {home[name]} and {split}; few-shot splits have no class "
                    "in common: keep it in one"
                )


def text_of(path: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 with a byte order mark; other encodings cannot be detected reliably."""
    with open_file(path) as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise DataError(f"{path} has more than {LONGEST / 2**20:.0f} MiB of text: is it another file?")
    try:
        return content.decode("utf-16" if content.startswith(UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        raise DataError(
            f"{path} is not text in UTF-8 (line {line} has the byte {content[fault.start]:#x}): save it as UTF-8"
        ) from fault


def read_csv(path: Path, *columns: str) -> list[dict[str, str]]:
    """Read the rows of a csv file whose header must have these columns."""
    try:
        reader = csv.DictReader(io.StringIO(text_of(path), newline=""), skipinitialspace=True)
        rows, found = list(reader), list(reader.fieldnames or [])
    except csv.Error as fault:
        raise DataError(f"{path} cannot be read as a table ({fault}): save it again") from fault
    if missing := [column for column in columns if column not in found]:
        raise DataError(f"{path} has columns {', '.join(found) or 'none'}; needed in its header: {', '.join(missing)}")
    if any(None in row.values() for row in rows):
        raise DataError(f"{path} has a line with too few columns; needed are {len(found)}: mend or remove it")
    return rows


def _from_json(text: str, where: str) -> ClassLists:
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as fault:
        raise DataError(
            f"{where} is not JSON ({fault}); needed is {{'train': [names], 'val': ..., 'test': ...}}"
        ) from None
    found = {split_name(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    lists = {split: found[split] for split in SPLITS if split in found}
    if not lists or not all(_is_list_of_names(classes) for classes in lists.values()):
        raise DataError(f"{where}: needed are lists of class names under train, val and test, at least one of them")
    return lists


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _from_csv(path: Path) -> ClassLists:
    """Read columns class (or label) and split; or filename,label from one split's file and from those next to it."""
    rows = read_csv(path)
    if rows and "split" in rows[0]:
        column = "class" if "class" in rows[0] else "label"
        read_csv(path, column)
        return _grouped([(row[column], split_name(row["split"])) for row in rows], path)
    if split_name(path.stem) not in SPLITS:
        raise DataError(f"{path}: needed are columns class and split, or files train.csv, val.csv and test.csv")
    siblings = {split: file for file in sorted(path.parent.glob("*.csv")) if (split := split_name(file.stem)) in SPLITS}
    return {split: sorted({row["label"] for row in read_csv(file, "label")}) for split, file in siblings.items()}


def _grouped(pairs: Sequence[tuple[str, str]], path: Path) -> ClassLists:
    found = {split for _, split in pairs}
    if unknown := sorted(found - set(SPLITS)):
        raise DataError(f"{path} has split '{unknown[0]}'; needed is one of {', '.join(SPLITS)}")
    return {split: sorted({name for name, home in pairs if home == split}) for split in SPLITS if split in found}
