"""Draw the accuracy of the networks behind `fc100` over the hours spent, from the table of their card.

python docs/accuracy_over_hours.py
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parent
SHOTS = ("1-shot", "5-shot", "10-shot")
ROW = re.compile(
    r"^\| (.+?) \| (\d+\.\d) \| " + r" \| ".join([r"(\d+\.\d+) ± (\d+\.\d+)"] * len(SHOTS)) + r" \|$", re.M
)


def main() -> None:
    """Read the card and write the picture."""
    rows = ROW.findall((DOCS / "bases.md").read_text())
    figure, parts = plt.subplots(1, len(SHOTS), figsize=(10, 3.4), layout="constrained")
    for place, (part, shot) in enumerate(zip(parts, SHOTS, strict=True)):
        for joined, marker, label in ((False, "o", "one network"), (True, "D", "side by side")):
            chosen = [row for row in rows if ("side by side" in row[0]) == joined]
            hours = [float(row[1]) for row in chosen]
            means, intervals = ([float(row[2 + 2 * place + part]) for row in chosen] for part in (0, 1))
            part.errorbar(hours, means, intervals, marker=marker, ls="-" if joined else ":", capsize=2, label=label)
        part.set(title=shot, xlabel="hours of one core so far")
        part.grid(alpha=0.3)
    parts[0].set_ylabel("accuracy in %, 2,000 tasks")
    parts[0].legend()
    figure.savefig(DOCS / "images" / "fc100-hours.png", dpi=120)


if __name__ == "__main__":
    main()
