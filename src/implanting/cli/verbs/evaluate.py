"""`implanting evaluate`: few-shot accuracy of a base network, with its interval."""

import dataclasses
import time
from collections.abc import Sequence

from implanting.base import BaseNetwork, load_base
from implanting.cli.parsing import parse
from implanting.cli.verbs.evaluate_prepare import Prepared, prepare
from implanting.cli.verbs.evaluate_report import (
    images_told,
    remark,
    result_arrays,
    rows_of,
    say_what_is_left_out,
    show,
    write_arrays,
)
from implanting.cli.verbs.evaluate_settings import Evaluate
from implanting.cli.workers import launch
from implanting.console import print_json
from implanting.fewshot import Result
from implanting.runtime import check_destination, choose_device, process_group, rank, set_threads, world_size


def main(arguments: Sequence[str]) -> int:
    """Compute what each image needs once, then evaluate each number of shots."""
    command = parse(Evaluate, "evaluate", arguments)
    command.check()
    if command.save_results:
        check_destination(command.save_results, "save_results", ".npz")
    set_threads(command.run.threads)
    device = choose_device(command.run.device)
    base, began = load_base(command.base, str(device)), time.monotonic()
    prepared = prepared_and_saved(command, base)
    if command.workers > 1 and world_size() == 1:
        del prepared  # it was made so that what is wrong is said once, by one process; each worker makes its own
        return launch(command.workers, "evaluate", arguments)
    remark(command, base, prepared)
    with process_group(device):
        results = prepared.run()
    if command.implants:
        say_what_is_left_out(command)
    tell(command, prepared, results, time.monotonic() - began)
    return 0


def prepared_and_saved(command: Evaluate, base: BaseNetwork) -> Prepared:
    """The evaluation but for its slow part; its tasks are written where that is asked for."""
    prepared = prepare(command, base)
    if command.save_tasks and rank() == 0:
        write_arrays(command.save_tasks, "--save-tasks", prepared.task_arrays)
    return prepared


def tell(command: Evaluate, prepared: Prepared, results: Sequence[Result], seconds: float) -> None:
    """The results, as they are asked for."""
    if command.save_results and rank() == 0:
        write_arrays(command.save_results, "--save-results", result_arrays(results, prepared.class_names))
    if command.json:
        rows = rows_of(command, results, prepared.class_names)
        print_json(dataclasses.asdict(command), seconds, rows, images=images_told(prepared))
    else:
        show(command, prepared.title, results)
