"""Parts of work on several threads."""

from threading import Barrier, current_thread

import pytest
import torch

from implanting.runtime import in_threads, shares

pytestmark = pytest.mark.usefixtures("two_threads")


def test_parts_come_back_in_order():
    assert in_threads(lambda part: part**2, range(20)) == [part**2 for part in range(20)]
    assert in_threads(lambda part: part, []) == []


def test_two_parts_are_worked_on_at_the_same_time_each_operation_by_one_thread():
    both = Barrier(2, timeout=20)  # each waits for the other: one after the other would break it

    def work(part: int) -> tuple[str, int]:
        both.wait()
        torch.ones(100_000).add_(part)
        return current_thread().name, torch.get_num_threads()

    (first, threads), (second, _) = in_threads(work, [0, 1])
    assert first != second
    assert threads == 1
    assert torch.get_num_threads() == 2


def test_one_part_or_one_thread_is_worked_on_here_with_all_threads():
    def where(_: int) -> tuple[str, int]:
        return current_thread().name, torch.get_num_threads()

    here = current_thread().name
    assert in_threads(where, [0]) == [(here, 2)]
    torch.set_num_threads(1)
    assert in_threads(where, [0, 1]) == 2 * [(here, 1)]


def test_work_within_work_does_not_start_more_threads():
    def inner(_: int) -> str:
        return current_thread().name

    def outer(_: int) -> bool:
        return set(in_threads(inner, [0, 1])) == {current_thread().name}

    assert in_threads(outer, [0, 1, 2]) == [True, True, True]


def test_an_error_is_passed_on_and_the_threads_are_given_back():
    def work(part: int) -> int:
        return 1 // part

    with pytest.raises(ZeroDivisionError):
        in_threads(work, [1, 0, 1])
    assert torch.get_num_threads() == 2


def test_shares_cover_everything_once_and_are_as_equal_as_can_be():
    assert [list(range(5)[share]) for share in shares(5)] == [[0, 1], [2, 3, 4]]
    assert shares(1) == [slice(0, 1)]
    torch.set_num_threads(3)
    for length in range(1, 20):
        parts = [list(range(length)[share]) for share in shares(length)]
        assert [item for part in parts for item in part] == list(range(length))
        assert len(parts) == min(3, length)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
