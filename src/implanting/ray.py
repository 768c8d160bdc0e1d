"""Answers of very many images on more than one machine, by Ray Data (extra `[ray]`).

Each actor loads the classifier once and reads images by our own reader, so the answers and the rows are those of
`implanting predict`: a bad file is a row with its `error`. What Ray repeats after a failure is a block of images as a
whole, so nothing is lost or doubled.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implanting.bulk import arrow_table, row_of
from implanting.classifier import ImageClassifier
from implanting.errors import DataError, MissingExtra
from implanting.images import find_images
from implanting.runtime import set_threads

if TYPE_CHECKING:
    import pyarrow
    from ray.data import Dataset

IMAGES_PER_BLOCK = 256
"""Images that are repeated, at most, where an actor is lost."""


def classify(
    images: "str | Path | Iterable[str | Path] | Dataset",
    classifier: str | Path,
    *,
    actors: int = 2,
    cpus_per_actor: float = 1,
    top: int = 1,
) -> "Dataset":
    """A Ray data set with a row per image, as `implanting predict` writes them; nothing runs until it is read.

    `images` are files, folders and patterns on storage that every machine sees, or a data set with a column `path` and
    perhaps `bytes`, as `ray.data.read_binary_files(..., include_paths=True)` gives it.
    """
    data = _ray_data()
    dataset = images if isinstance(images, data.Dataset) else _dataset_of(images)
    return dataset.map_batches(
        _Actor,
        fn_constructor_kwargs={"file": Path(classifier).read_bytes(), "threads": int(cpus_per_actor) or 1, "top": top},
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
