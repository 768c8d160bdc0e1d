import threading
import time

import numpy as np
import pytest

from implanting.base import BaseNetwork
from implanting.errors import ImageError
from implanting.serve.learning import Reading, read, side_of
from implanting.serve.reader import BEHIND, Reader, Urgency


def images_for(base: BaseNetwork, count: int) -> np.ndarray:
    side = side_of(base)
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def test_photos_that_wait_together_get_what_each_gets_alone(base: BaseNetwork) -> None:
    reader, images = Reader(lambda: base), images_for(base, 40)
    futures = [reader.submit(lambda one=one: one, Urgency.QUESTION) for one in images]
    found = np.stack([future.result(30).vector for future in futures])
    alone = np.stack([read(base, one[None])[0].vector for one in images])
    np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-5)
    reader.close()


def test_a_question_comes_before_photos_that_nobody_waits_for(base: BaseNetwork) -> None:
    started, go, order = threading.Event(), threading.Event(), []
    images = images_for(base, 1)

    def slow() -> np.ndarray:
        started.set()
        go.wait(10)
        return images[0]

    reader = Reader(lambda: base)
    first = reader.submit(slow, Urgency.EXAMPLE)
    started.wait(10)
    later = [reader.submit(lambda: images[0], Urgency.EXAMPLE) for _ in range(2 * BEHIND)]
    question = reader.submit(lambda: images[0], Urgency.QUESTION)
    for name, future in [("question", question), *(("example", one) for one in later)]:
        future.add_done_callback(lambda _, name=name: order.append(name))
    go.set()
    first.result(30)
    for future in later:
        future.result(30)
    # photos that were gathered with the first one are done with it; none of the others overtakes the question
    assert order.index("question") <= BEHIND
    reader.close()


def test_announced_questions_are_waited_for(base: BaseNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is alone is read at once; one after which another is announced is read together with it."""
    monkeypatch.setattr("implanting.serve.reader.GATHERING", 2.0)  # long enough for the slowest machine
    images, batches = images_for(base, 1), []

    def noted() -> BaseNetwork:
        batches.append(len(loaded))
        return base

    def load() -> np.ndarray:
        loaded.append(1)
        return images[0]

    loaded: list[int] = []
    reader = Reader(noted)
    reader.submit(load, Urgency.QUESTION).result(30)
    with reader.announced():
        first = reader.submit(load, Urgency.QUESTION)
        while not reader._waiting.empty():
            time.sleep(0.001)
        second = reader.submit(load, Urgency.QUESTION)
    first.result(30)
    second.result(30)
    assert batches == [1, 3]
    reader.close()


def test_closing_waits_for_the_present_batch_only_and_cancels_the_rest(base: BaseNetwork) -> None:
    """Ctrl-C would else wait until a whole folder was read, and whoever waits for a photo would wait for ever."""
    images, loaded, started, go = images_for(base, 1), [], threading.Event(), threading.Event()
    reader = Reader(lambda: base)
    closing = threading.Thread(target=reader.close)

    def slow() -> np.ndarray:
        started.set()
        go.wait(10)
        for _ in range(500):  # until it is being closed, at the latest for five seconds
            if reader.submit(load, Urgency.QUESTION).cancelled():
                break
            time.sleep(0.01)
        return images[0]

    def load() -> np.ndarray:
        loaded.append(1)
        return images[0]

    first = reader.submit(slow, Urgency.EXAMPLE)
    started.wait(10)
    later = [reader.submit(load, Urgency.EXAMPLE) for _ in range(10 * BEHIND)]
    closing.start()
    go.set()
    closing.join(60)
    assert isinstance(first.result(1), Reading)
    assert loaded == []
    assert all(future.cancelled() for future in later)


def test_one_photo_that_fails_does_not_take_the_others_along(base: BaseNetwork) -> None:
    images = images_for(base, 2)

    def broken() -> np.ndarray:
        raise ImageError("the file is gone")

    reader = Reader(lambda: base)
    good, bad, also = (reader.submit(load, Urgency.QUESTION) for load in (lambda: images[0], broken, lambda: images[1]))
    with pytest.raises(ImageError, match="the file is gone"):
        bad.result(30)
    assert isinstance(good.result(30), Reading)
    assert isinstance(also.result(30), Reading)
    reader.close()


def test_a_reading_is_the_same_after_it_was_kept(base: BaseNetwork) -> None:
    [reading] = read(base, images_for(base, 1), views=2)
    again = Reading.from_bytes(reading.to_bytes(), base)
    np.testing.assert_allclose(again.vectors, reading.vectors, rtol=1e-3, atol=1e-6)  # half precision
    np.testing.assert_array_equal(again.thumbnail, reading.thumbnail)
    np.testing.assert_array_equal(again.pixels, images_for(base, 1)[0])  # implants are trained on this base
