"""Shards: parts of a long list of images, each with every n-th image, starting with the i-th."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from implanting.errors import ConfigError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `total` parts, counted from 1."""

    number: int = 1
    total: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse text such as `2/8`."""
        found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
        shard = cls(*map(int, found.groups())) if found else None
        if shard is None or not 1 <= shard.number <= shard.total:
            raise ConfigError(
                f"`shard` is {text}; it must be i/n with i from 1 to n, such as 1/8, 2/8 and so on to 8/8"
            )
        return shard

    def of(self, items: Sequence[Item]) -> list[Item]:
        """Select the items of this shard; together, all shards contain each item once."""
        return list(items[self.number - 1 :: self.total])

    def path(self, out: Path) -> Path:
        """Add the shard to a file name: `answers.csv` becomes `answers-2-of-8.csv`."""
        width = len(str(self.total))
        return out.with_name(f"{out.stem}-{self.number:0{width}d}-of-{self.total}{out.suffix}")
