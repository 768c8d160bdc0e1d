"""A file is written whole or not at all, through no planted link, and over nothing that is not ours."""

import os
import threading
import time
from pathlib import Path

import pytest

from implanting.errors import ConfigError
from implanting.runtime import append_to, check_destination, holds, is_our_picture, replacing, write_atomically
from implanting.runtime.writing import FORGOTTEN, PICTURES, write_figure


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.bin").write_bytes(b"old")
    return tmp_path / "a.bin"


def test_content_is_replaced_and_nothing_is_left(path):
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")])
def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(path, fault):
    expected = ConfigError if isinstance(fault, OSError) else type(fault)

    def write() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise fault

    with pytest.raises(expected):
        write()
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_planted_links_are_not_followed(path, monkeypatch):
    treasure = path.with_name("treasure")
    treasure.write_bytes(b"gold")
    path.unlink()
    path.symlink_to(treasure)  # the link itself is replaced
    write_atomically(path, b"new")
    assert (treasure.read_bytes(), path.read_bytes(), path.is_symlink()) == (b"gold", b"new", False)
    monkeypatch.setattr("secrets.token_hex", lambda _: "known")
    path.with_name(".a.bin.known.partial").symlink_to(treasure)
    with pytest.raises(ConfigError, match="File exists"):
        write_atomically(path, b"newer")
    path.unlink()
    path.symlink_to(treasure)
    with pytest.raises(ConfigError, match="cannot be written"):
        append_to(path, b"line\n")
    assert treasure.read_bytes() == b"gold"


def test_two_writers_leave_the_file_of_one_of_them_at_every_moment(path):
    contents = {bytes([letter]) * 200_000 for letter in b"xy"} | {b"old"}
    writers = [
        threading.Thread(target=lambda content=content: [write_atomically(path, content) for _ in range(20)])
        for content in contents
    ]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        assert path.read_bytes() in contents
        reads += 1
    assert reads > 10
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_writer_left_long_ago_is_removed(path):
    left, recent, other = (path.with_name(f".{name}.partial") for name in ("a.bin.1234", "a.bin.5678", "b.bin.1234"))
    for file in (left, recent, other):
        file.write_bytes(b"half")
    for file in (left, other):
        os.utime(file, (time.time() - 2 * FORGOTTEN,) * 2)
    write_atomically(path, b"new")
    assert [file.exists() for file in (left, recent, other)] == [False, True, True]


def test_what_is_there_is_replaced_only_if_it_is_of_the_kind_or_asked_for(path):
    check_destination(path, suffix=".bin", replaces=holds(b"ol"))
    with pytest.raises(ConfigError, match=r"`out` .*a\.bin exists already"):
        check_destination(path, suffix=".bin", replaces=holds(b"new"))
    with pytest.raises(ConfigError, match=r"is what is read from: .*`overwrite`"):
        check_destination(path, suffix=".bin", replaces=holds(b"ol"), inputs=(None, path.parent / "." / "a.bin"))
    check_destination(path, suffix=".bin", replaces=holds(b"new"), inputs=(path,), overwrite=True)
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="exists already"):
        check_destination(path, suffix=".bin", replaces=holds(b"ol"))
    os.mkfifo(path.with_name("pipe.bin"))
    assert not holds(b"")(path.with_name("pipe.bin"))


@pytest.mark.parametrize("ending", PICTURES)
def test_pictures_are_known_as_ours(tmp_path, ending):
    from matplotlib.figure import Figure

    picture = tmp_path / f"a.{ending}"
    Figure(figsize=(1, 1)).savefig(picture)
    assert not is_our_picture(picture)
    write_figure(Figure(figsize=(1, 1)), picture, 50)
    assert is_our_picture(picture)
