"""Draw the few-shot validation of several trainings in one picture, from the logs next to their networks.

python docs/compare_runs.py dense-or-pooled.png pooled=gap.jsonl dense=dense.jsonl
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt


def main() -> None:
    """Read the logs and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NAME=LOG")
    arguments = parser.parse_args()
    figure, (learned, novel) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for run in arguments.runs:
        name, _, log = run.partition("=")
        events = [json.loads(line) for line in Path(log).read_text().splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        tests = [event for event in events if event["event"] == "validation"]
        numbers, accuracies = zip(*((event["step"], 100 * event["accuracy"]) for event in steps), strict=True)
        learned.plot(numbers, accuracies, label=name, lw=0.8)
        novel.errorbar(
            [event["step"] for event in tests],
            [100 * event["mean"] for event in tests],
            [100 * event["interval"] for event in tests],
            label=f"{name}, {tests[-1]['tasks']} tasks",
            capsize=2,
        )
    learned.set(title="base classes, augmented images", xlabel="step", ylabel="accuracy in %")
    novel.set(
        title=f"validation classes, {tests[-1]['way']}-way {tests[-1]['shot']}-shot",
        xlabel="step",
        ylabel="accuracy in % (95 % intervals)",
    )
    for part in (learned, novel):
        part.legend()
        part.grid(alpha=0.3)
    figure.savefig(arguments.picture, dpi=120)


if __name__ == "__main__":
    main()
