"""Letters that cannot be written, and messages that stay one line."""

import codecs
import io
import os
import sys
import warnings

import pytest

from implanting.cli.main import LONGEST, one_line, prepare_streams


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("ascii", "50 ± 1", b"50 +- 1"),
        ("ascii", "h\u00eatre", b"h\\xeatre"),
        ("latin-1", "50 ± 1 \u6a39", b"50 \xb1 1 \\u6a39"),
        ("utf-8", "50 ± 1", "50 ± 1".encode()),
        ("utf-8", os.fsdecode(b"caf\xe9"), b"caf\\xe9"),
    ],
)
def test_every_text_can_be_printed(monkeypatch, encoding, text, written):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    prepare_streams()
    stream.write(text)
    stream.flush()
    assert stream.buffer.getvalue() == written


def test_a_closed_stream_takes_what_is_printed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    prepare_streams()
    sys.stdout.write("nothing reads this")
    sys.stdout.close()


def test_reading_is_not_spelled():
    prepare_streams()
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "ascii", "implanting.spell")


def test_warnings_are_one_line(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    prepare_streams()
    assert warnings.formatwarning("a\nb", UserWarning, "file.py", 1) == "warning: a\\nb\n"


def test_one_line():
    assert one_line("no file 'a\nb\0c': check h\u00eatre") == "no file 'a\\nb\\x00c': check h\u00eatre"
    assert one_line(f"image {'a' * LONGEST} is bad") == f"image {'a' * LONGEST} is bad"
    cut = one_line(f"image {'a' * 5000}z is bad")
    assert len(cut) < LONGEST + 30
    assert cut.endswith("az is bad")
