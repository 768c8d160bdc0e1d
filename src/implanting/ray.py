"""Classify very many images on more than one machine by Ray Data (extra `[ray]`).

Each actor loads the classifier once and reads images with our own reader, so the answers and the rows are those of
`implanting predict`: a bad file is a row with its `error`. After a failure, Ray repeats whole blocks of images, so that
nothing is lost or doubled.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implanting.bulk import arrow_table, row_of
from implanting.classifier import ImageClassifier
from implanting.config import require
from implanting.errors import DataError, MissingExtra
from implanting.images import find_images
from implanting.runtime import set_threads

if TYPE_CHECKING:
    import pyarrow
    from ray.data import Dataset

IMAGES_PER_BLOCK = 256
"""The largest number of images that are classified again if an actor is lost."""


def classify(
    images: "str | Path | Iterable[str | Path] | Dataset",
    classifier: str | Path,
    *,
    actors: int = 2,
    cpus_per_actor: float = 1,
    top: int = 1,
) -> "Dataset":
    """Return a Ray data set with one row per image, as `implanting predict` writes them; nothing runs until it is read.

    `images` are files, folders and patterns on storage that every machine sees, or a data set with a column `path` and
    optionally `bytes`, such as `ray.data.read_binary_files(..., include_paths=True)`.
    """
    data = _ray_data()
    require(top >= 1, "top", top, "1 or more")
    require(actors >= 1, "actors", actors, "1 or more")
    require(cpus_per_actor > 0, "cpus_per_actor", cpus_per_actor, "above 0")
    known = ImageClassifier.load(classifier)  # a file that is none is refused here and not by every actor
    dataset = images if isinstance(images, data.Dataset) else _dataset_of(images)
    arguments = {
        "file": Path(classifier).read_bytes(),
        "threads": int(cpus_per_actor) or 1,
        "top": min(top, len(known.classes_)),
    }
    return dataset.map_batches(
        _Actor,
        fn_constructor_kwargs=arguments,
        compute=data.ActorPoolStrategy(size=actors),
        num_cpus=cpus_per_actor,
        batch_size=IMAGES_PER_BLOCK,
        batch_format="pyarrow",
    )


def _dataset_of(images: Any) -> Any:
    named = [images] if isinstance(images, str | Path) else list(images)
    paths = [{"path": str(path)} for path in find_images(named, skip_bad=True)]
    return _ray_data().from_items(paths, override_num_blocks=-(-len(paths) // IMAGES_PER_BLOCK))


class _Actor:
    def __init__(self, file: bytes, threads: int, top: int) -> None:
        set_threads(threads)
        self.top = top
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as copy:  # machines need not share the driver's disk
            Path(copy.name).write_bytes(file)
            self.classifier = ImageClassifier.load(copy.name)

    def __call__(self, batch: "pyarrow.Table") -> "pyarrow.Table":
        if "path" not in batch.column_names:
            raise DataError(
                f"the data set has columns {batch.column_names}; expected path: read with include_paths=True"
            )
        paths = batch["path"].to_pylist()
        sources = batch["bytes"].to_pylist() if "bytes" in batch.column_names else paths
        answers = zip(self.classifier.answer_each(sources, top=self.top), paths, strict=True)
        return arrow_table([row_of(each, self.top, path) for each, path in answers], self.top)


def _ray_data() -> Any:
    try:
        import ray.data
    except ImportError as error:
        raise MissingExtra("Ray is not installed: pip install 'implanting[ray]'") from error
    return ray.data
