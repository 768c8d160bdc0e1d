"""Infrastructure: progress, randomness, threads, processes, arrays and files.

Nothing in this room knows about images, networks or tasks.
"""

from implanting.runtime.arrays import (
    Shape,
    allocate,
    alone_in,
    common_arrays,
    falls_to_this_process,
    kept_arrays,
    on_one_machine,
    open_files,
)
from implanting.runtime.checkpoint import (
    FORMAT,
    kind_of,
    part,
    prefixed,
    read_checkpoint,
    write_checkpoint,
)
from implanting.runtime.descent import AdamW
from implanting.runtime.documents import checked, parse_json
from implanting.runtime.machine import check_cores, check_memory, cores, free_memory
from implanting.runtime.processes import from_rank_zero, group, process_group, share, synchronise, total, wait_for_all
from implanting.runtime.reading import open_file
from implanting.runtime.work import (
    Progress,
    Stream,
    choose_device,
    generator_of,
    in_threads,
    rank,
    restarted,
    seed_from,
    set_threads,
    shares,
    silent,
    world_size,
)
from implanting.runtime.writing import (
    append_to,
    check_destination,
    check_outside,
    figure_bytes,
    holds,
    is_our_picture,
    replacing,
    write_atomically,
    write_figure,
)

__all__ = [
    "FORMAT",
    "AdamW",
    "Progress",
    "Shape",
    "Stream",
    "allocate",
    "alone_in",
    "append_to",
    "check_cores",
    "check_destination",
    "check_memory",
    "check_outside",
    "checked",
    "choose_device",
    "common_arrays",
    "cores",
    "falls_to_this_process",
    "figure_bytes",
    "free_memory",
    "from_rank_zero",
    "generator_of",
    "group",
    "holds",
    "in_threads",
    "is_our_picture",
    "kept_arrays",
    "kind_of",
    "on_one_machine",
    "open_file",
    "open_files",
    "parse_json",
    "part",
    "prefixed",
    "process_group",
    "rank",
    "read_checkpoint",
    "replacing",
    "restarted",
    "seed_from",
    "set_threads",
    "share",
    "shares",
    "silent",
    "synchronise",
    "total",
    "wait_for_all",
    "world_size",
    "write_atomically",
    "write_checkpoint",
    "write_figure",
]
