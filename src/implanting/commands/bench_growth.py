"""How time grows with the work, as a table."""

from typing import Any

from implanting.bench.timing import FACTOR
from implanting.console import print_table


def show_growth(rows: list[dict[str, Any]], rounds: int) -> None:
    """What eight times the work costs."""
    print_table(
        "growth",
        ["", "from", "to", "seconds", "seconds", "ratio of the cost of one"],
        [
            [
                row["kind"],
                str(row["units"]),
                str(FACTOR * row["units"]),
                f"{row['few']:.3f}",
                f"{row['many']:.3f}",
                f"{row['ratio']:.2f}",
            ]
            for row in rows
        ],
        f"best of {rounds} turns, taken in turn; linear is 1, and less where fixed costs are spread over more",
    )
