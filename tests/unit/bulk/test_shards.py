from pathlib import Path

import pytest

from implanting.bulk import Shard
from implanting.errors import ConfigError


@pytest.mark.parametrize("total", [1, 2, 3, 7, 20])
def test_all_parts_together_have_each_item_once(total):
    items = list(range(13))
    parts = [Shard(number, total).of(items) for number in range(1, total + 1)]
    assert sorted(item for part in parts for item in part) == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["3/2", "0/2", "1/0", "1", "a/b", "-1/2", "1/2/3", "", "1.0/2"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(ConfigError, match=r"`shard` is .*; it must be i/n"):
        Shard.parse(text)


def test_names_sort_in_order():
    assert Shard.parse("2/8").path(Path("in/answers.csv")) == Path("in/answers-2-of-8.csv")
    assert Shard(3, 100).path(Path("a.b.parquet")).name == "a.b-003-of-100.parquet"
