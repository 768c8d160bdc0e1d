import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from implanting.config import NetworkConfig
from implanting.datasets import ImageSet, add_views
from implanting.dense_classification import locations
from implanting.errors import DataError
from implanting.implants import DESCRIPTION, Activations, compute_activations
from implanting.runtime.arrays import KEY
from rounding import assert_near
from toys import noise, toy_base


def ten_images(seed: int = 0) -> ImageSet:
    """Images of 32 x 48 px: maps of 4 x 6 locations, phi of 2 x 3."""
    return ImageSet(noise(10, 32, 48, 3, seed=seed), torch.arange(10) % 2, ("one", "two"), "toy", "none")


BASE, IMAGES = toy_base(), ten_images()


def equal(first: Activations, second: Activations) -> bool:
    """Whether two sets of activations are the same, bit by bit."""
    pairs = zip([*first.base_maps, first.phi], [*second.base_maps, second.phi], strict=True)
    return first.sizes == second.sizes and all(torch.equal(*pair) for pair in pairs)


@pytest.fixture(autouse=True)
def four_images_a_batch(monkeypatch):
    monkeypatch.setattr("implanting.base.embedding.BATCH", 4)


@pytest.fixture
def computed(monkeypatch):
    """The number of images in each call of `BaseNetwork.activations`."""
    calls, compute = [], BASE.activations

    def counted(images):
        calls.append(len(images))
        return compute(images)

    monkeypatch.setattr(BASE, "activations", counted)
    return calls


@pytest.mark.parametrize(
    ("network", "channels"), [("resnet12", [8, 16, 16, 16]), ("c128f", [4, 4])], ids=["resnet12", "c128f"]
)
@pytest.mark.parametrize("kept", ["memory", "mapped", "cache", "cache opened again"])
def test_kept_activations_are_those_of_each_image_by_itself(network, channels, kept, tmp_path):
    base = toy_base(architecture=NetworkConfig(network, width=2))
    cache = tmp_path / "cache" if kept.startswith("cache") else None
    activations = compute_activations(base, IMAGES, cache=cache, budget=0 if kept == "mapped" else 10**6)
    if kept == "cache opened again":
        activations = compute_activations(base, IMAGES, cache=cache)
    assert [part.shape for part in activations.base_maps] == [(10, 24, width) for width in channels[:-1]]
    assert activations.phi.shape == (10, 6, channels[-1])
    assert set(activations.sizes) == {(4, 6)}
    for number, image in enumerate(IMAGES.images):
        maps, phi = base.activations(image[None])
        for cached, fresh in zip([*activations.base_maps, activations.phi], [*maps, phi], strict=True):
            assert_near(cached[number], locations(fresh)[0])


def test_phi_is_that_of_embedding():
    assert_near(compute_activations(BASE, IMAGES).phi, BASE.embed(IMAGES.images))


def test_beyond_the_budget_all_maps_are_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    needed = 10 * 4 * (24 * (8 + 16 + 16) + 6 * 16)
    within, beyond = (compute_activations(BASE, IMAGES, budget=budget) for budget in (needed, needed - 1))
    assert equal(within, beyond)
    assert list(tmp_path.iterdir()) == []
    if (maps := Path("/proc/self/maps")).exists():
        assert sum(str(tmp_path) in line for line in maps.read_text().splitlines()) == 4


@pytest.mark.parametrize("cached", [False, True])
def test_half_precision_is_near(cached, tmp_path):
    half = compute_activations(BASE, IMAGES, half=True, cache=tmp_path if cached else None)
    exact = compute_activations(BASE, IMAGES)
    assert {part.dtype for part in (*half.base_maps, half.phi)} == {torch.float16}
    for ours, theirs in zip((*half.base_maps, half.phi), (*exact.base_maps, exact.phi), strict=True):
        torch.testing.assert_close(ours.float(), theirs, rtol=1e-2, atol=1e-2)
        assert not torch.equal(ours.float(), theirs)


def test_a_cache_is_read_and_nothing_computed(tmp_path, computed):
    first = compute_activations(BASE, IMAGES, cache=tmp_path / "new" / "folder")
    assert computed == [1, 4, 4, 2]
    computed.clear()
    assert equal(compute_activations(BASE, IMAGES, cache=tmp_path / "new" / "folder"), first)
    assert computed == []


@pytest.mark.parametrize(
    ("changed", "base", "images", "half"),
    [
        ("another base network", toy_base(seed=1), IMAGES, False),
        (r"other images, .* \(toy of 10 images.*; here toy of 10", BASE, ten_images(seed=1), False),
        (r"other images, .* \(toy of 10 images.*; here toy of 20", BASE, add_views(IMAGES, 2), False),
        (r"another precision \(float32; here float16\)", BASE, IMAGES, True),
    ],
    ids=["base", "images", "views", "dtype"],
)
def test_a_cache_of_something_else_is_refused(changed, base, images, half, tmp_path):
    cached = compute_activations(BASE, IMAGES, cache=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(DataError, match=rf"{tmp_path} is of {changed}.*remove this one"):
        compute_activations(base, images, half=half, cache=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert equal(compute_activations(BASE, IMAGES, cache=tmp_path), cached)


def test_an_interrupted_cache_is_not_used(tmp_path, computed):
    def interrupted(batches, description, total):
        assert (description, total) == ("base activations", 3)
        yield from list(batches)[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute_activations(BASE, IMAGES, cache=tmp_path, progress=interrupted)
    assert [path.name for path in tmp_path.iterdir()] == [KEY]
    computed.clear()
    assert equal(compute_activations(BASE, IMAGES, cache=tmp_path), compute_activations(BASE, IMAGES))
    assert computed[:4] == [1, 4, 4, 2]


def test_what_a_killed_process_left_does_no_harm(tmp_path):
    (tmp_path / KEY).touch()
    for number in range(4):
        np.save(tmp_path / f"map-{number}.npy", np.zeros((10, 24, 16), np.float32))
    fewer = toy_base(architecture=NetworkConfig("c128f", width=2))
    cached = [compute_activations(fewer, IMAGES, cache=tmp_path) for _ in range(2)]
    assert all(equal(activations, compute_activations(fewer, IMAGES)) for activations in cached)


@pytest.mark.parametrize("half", [False, True])
def test_a_full_disk_is_told_before_anything_is_computed(half, tmp_path, monkeypatch, computed):
    allocated = []

    def full(*arguments):
        allocated.append(arguments)
        if len(allocated) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    wanted = rf"{tmp_path} has no room for {'20' if half else '41'}\.\d KiB \(No space left.*choose another folder"
    with pytest.raises(DataError, match=wanted) as error:
        compute_activations(BASE, IMAGES, half=half, cache=tmp_path)
    assert ("`half`" in str(error.value)) != half
    assert [path.name for path in tmp_path.iterdir()] == [KEY]
    assert computed == [1]


@pytest.mark.parametrize("half", [False, True])
def test_of_gathers_the_images_asked_for(half):
    activations = compute_activations(BASE, IMAGES, half=half)
    images = torch.tensor([[7, 0, 7], [2, 9, 1]])
    maps, phi = activations.gather(images)
    for gathered, cached in zip([*maps, phi], [*activations.base_maps, activations.phi], strict=True):
        assert gathered.dtype == torch.float32
        assert gathered.shape == (2, 3, *cached.shape[1:])
        for task in range(2):
            for place in range(3):
                assert torch.equal(gathered[task, place], cached[images[task, place]].float())


def test_what_is_gathered_may_be_changed():
    activations = compute_activations(BASE, IMAGES)
    before = activations.phi.clone()
    activations.gather(torch.arange(10))[1].zero_()
    assert torch.equal(activations.phi, before)


def test_a_file_is_no_cache(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file is a file; a folder is needed"):
        compute_activations(BASE, IMAGES, cache=tmp_path / "file")


def without(key: str) -> Callable[[Path], None]:
    def damage(cache: Path) -> None:
        described = json.loads((cache / DESCRIPTION).read_text())
        del described[key]
        (cache / DESCRIPTION).write_text(json.dumps(described))

    return damage


def of_one_map_less(cache: Path) -> None:
    described = json.loads((cache / DESCRIPTION).read_text())
    (cache / DESCRIPTION).write_text(json.dumps(described | {"arrays": 3}))


@pytest.mark.parametrize(
    "damage",
    [
        lambda cache: (cache / "map-1.npy").unlink(),
        lambda cache: (cache / "map-1.npy").write_bytes((cache / "map-1.npy").read_bytes()[:500]),
        lambda cache: np.save(cache / "map-1.npy", np.zeros((10, 24, 15), np.float32)),
        lambda cache: np.save(cache / "map-1.npy", np.zeros((9, 24, 16), np.float32)),
        lambda cache: np.save(cache / "map-3.npy", np.zeros((10, 6, 16), np.float64)),
        lambda cache: (cache / DESCRIPTION).write_text("[]"),
        lambda cache: (cache / DESCRIPTION).write_text("{"),
        without("arrays"),
        without("sizes"),
        without("base"),
        of_one_map_less,
    ],
    ids=["file", "cut", "channels", "images", "precision", "list", "text", "arrays", "sizes", "base", "fewer"],
)
def test_a_damaged_cache_is_refused(damage, tmp_path):
    compute_activations(BASE, IMAGES, cache=tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=rf"{tmp_path} is damaged .*computed again"):
        compute_activations(BASE, IMAGES, cache=tmp_path)
