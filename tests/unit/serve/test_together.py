import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from implanting.serve.together import Together


def test_calls_that_wait_are_made_as_one_and_each_gets_its_own_answers() -> None:
    begun, go, sizes = threading.Event(), threading.Event(), []

    def double(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        begun.set()
        go.wait(30)
        return [2 * item for item in items]

    together = Together(double)
    with ThreadPoolExecutor(5) as threads:
        first = threads.submit(together, [0])
        assert begun.wait(30)
        others = [threads.submit(together, [number, 10 * number]) for number in range(1, 5)]
        while len(together._waiting) < 8:
            pass
        go.set()
        assert first.result(30) == [0]
        assert [other.result(30) for other in others] == [[2 * one, 20 * one] for one in range(1, 5)]
    assert sizes == [1, 8]


def test_an_error_reaches_whoever_waited_and_nobody_after() -> None:
    together = Together(lambda items: [1 // item for item in items])
    with pytest.raises(ZeroDivisionError):
        together([1, 0])
    assert together([1]) == [1]
