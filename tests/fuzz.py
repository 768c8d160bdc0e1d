"""Hostile input by a seed, as long as one likes, judged by one oracle.

    python tests/fuzz.py --seconds 3600 --seed 1     # or: make fuzz SECONDS=3600

Each kind of input has a function below that makes one case in an empty folder and runs it in this process: a command
as the command line runs it, or the function of the library that reads such a file. The oracle: exit status 0, 2 or 130
or an error of ours, no traceback, one line of error, no file made or changed by what failed, no process started, memory
and time within bounds. A case that fails is kept in a folder, with the seed that makes it again.
"""

import argparse
import contextlib
import copy
import io
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save

from implanting.base import load_base
from implanting.bulk import columns, write_rows
from implanting.cli import main
from implanting.datasets import ImageSet, read_dataset
from implanting.errors import ImplantingError
from implanting.images import decode, find_images, stored_size
from implanting.implants import compute_activations
from implanting.pretraining.training_log import read_log
from implanting.reproduce.kept_results import _read_result

FIXTURES = Path(__file__).parent / "fixtures"
SECONDS = 20
"""Processor time that a case may take, and 15 times as long on the clock; most take a few milliseconds."""
MEMORY = 3 * 2**30
"""Bytes that a case may add to what the process has; beyond them there is no more to be had."""
ROUNDS = 500
"""Rounds of all kinds after which a new process goes on."""
STARTED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn")
HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 3, 2**31, 2**63, 10**30, -0.5, 1e308, float("nan"), float("inf"), "", "x", "\x1b[31m", "\0",
    [], {}, [[]], [None], {"a": 1}, "a" * 5000, ["x"] * 50, [1, 2, 3], "dense", "efficientnet-lite0", "../..",
    [1e9, 1e9],
]  # fmt: skip
NAMES = [
    "\x1b[31mred",
    "=1+1",
    "a\nb",
    "\u202eabc",
    "-rf",
    "a" * 200,
    "..a",
    "sp ace",
    "\u00e9",
    "'",
    '"',
    "%s",
    "$(x)",
]

Case = Callable[[random.Random, Path], None]


class Broken(Exception):
    """A promise was not kept."""


def command(*arguments: str, folder: Path) -> int:
    """Run a command as the command line does, and hold it to the oracle."""
    before = snapshot(folder)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
    said, told = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (flushed(out), flushed(err)))
    if status not in (0, 2, 130):
        raise Broken(f"status {status}: {told[-500:]}")
    if "Traceback" in told or "\x1b" in said + told:
        raise Broken(f"traceback or control characters: {told[-1000:]}")
    errors = [line for line in told.splitlines() if line.startswith("implanting: ")]
    if status == 2 and len(errors) != 1:
        raise Broken(f"{len(errors)} lines of error: {told[-500:]}")
    if status and snapshot(folder) != before:
        raise Broken(f"files differ after a failure: {sorted(set(snapshot(folder)) ^ set(before))}")
    return status


def flushed(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    stream.flush()
    return stream


def snapshot(folder: Path) -> dict[str, Any]:
    """What is in a folder: names, sizes and times of change."""
    found = {}
    for path in folder.rglob("*"):
        state = path.lstat()
        found[str(path)] = (
            state.st_mode,
            state.st_size if path.is_file() else 0,
            state.st_mtime_ns if path.is_file() else 0,
        )
    return found


def attempt(read: Callable[[], Any]) -> None:
    """Call a reader, which may refuse by an error of ours and no other."""
    with contextlib.suppress(ImplantingError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read()


def mutated_bytes(chance: random.Random, content: bytes) -> bytes:
    """Some bytes changed, cut, repeated or replaced by extreme numbers."""
    mutable = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        place = chance.randrange(max(1, len(mutable)))
        match chance.randrange(6):
            case 0:
                mutable[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del mutable[place:]
            case 2:
                mutable[place : place + chance.randrange(64)] = b""
            case 3:
                mutable[place:place] = mutable[place : place + chance.randrange(64)]
            case 4:
                mutable[place : place + 4] = chance.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 4, b"\0\0\0\1"])
            case 5:
                mutable[place : place + 1] = bytes([mutable[place] ^ (1 << chance.randrange(8))] if mutable else b"x")
    return bytes(mutable)


def mutated_value(chance: random.Random, value: Any) -> Any:
    """A JSON value with one part of it changed, removed or added."""
    if chance.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return chance.choice(HOSTILE)
    value = copy.copy(value)
    key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    match chance.randrange(8):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[chance.choice(NAMES)] = chance.choice(HOSTILE)
        case 1:
            value.append(chance.choice(HOSTILE))
        case _:
            value[key] = mutated_value(chance, value[key])
    return value


def mutated_tensors(chance: random.Random, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    name = chance.choice(sorted(tensors))
    tensor = tensors[name].clone()
    match chance.randrange(6):
        case 0:
            tensor = tensor.double()
        case 1 if tensor.is_floating_point() and tensor.numel():
            tensor.view(-1)[chance.randrange(tensor.numel())] = chance.choice([float("nan"), float("inf"), 1e38])
        case 2:
            tensor = tensor.flatten()[:-1]
        case 3:
            return {key: value for key, value in tensors.items() if key != name}
        case 4:
            tensor = torch.zeros(chance.choice([(0,), (1,), (0, 10**6), (3, 4, 5)]))
        case 5:
            tensor = tensor.new_zeros(tensor.shape)
    return {**tensors, name: tensor}


def checkpoint(chance: random.Random, source: Path, folder: Path) -> Path:
    """A file of ours with its description, its tensors or its bytes changed."""
    from safetensors import safe_open

    target = folder / "file.safetensors"
    with safe_open(source, "pt") as file:
        text = file.metadata()["implanting"]
    document, tensors = json.loads(text), load_file(source)
    match chance.randrange(8):
        case 0 | 1 | 2 | 3:
            document = mutated_value(chance, document)
        case 4 | 5:
            tensors = mutated_tensors(chance, tensors)
        case 6:
            target.write_bytes(mutated_bytes(chance, source.read_bytes()))
            return target
        case 7:
            deep = chance.choice([50, 2000, 100_000])
            target.write_bytes(save(tensors, {"implanting": '{"a":' * deep + "1" + "}" * deep}))
            return target
    if chance.random() < 0.5 and isinstance(document, dict) and "digest" in document:
        with contextlib.suppress(Exception):
            from implanting.classifier.files import digest

            document["digest"] = digest(tensors)  # as one would who means it
    target.write_bytes(save(tensors, {"implanting": json.dumps(document)}))
    return target


def base_file(chance: random.Random, folder: Path) -> None:
    file = checkpoint(chance, FIXTURES / "base-0.1.0.safetensors", folder)
    command("info", str(file), folder=folder)


def classifier_file(chance: random.Random, folder: Path) -> None:
    kind = chance.choice(["prototypes", "implants"])
    file = checkpoint(chance, FIXTURES / f"classifier-{kind}-0.1.0.safetensors", folder)
    Image.new("RGB", (9, 9), "red").save(folder / "a.png")
    command("predict", str(file), str(folder / "a.png"), chance.choice(["--json", "--csv"]), folder=folder)


def cache(chance: random.Random, folder: Path) -> None:
    base = load_base(FIXTURES / "base-0.1.0.safetensors")
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8))
    images = ImageSet(pixels, torch.tensor([0, 0, 1, 1]), ("a", "b"), "toy", "none")
    compute_activations(base, images, cache=folder / "cache")
    victim = chance.choice(sorted((folder / "cache").glob("[am]*")))
    if victim.suffix == ".json" and chance.random() < 0.7:
        victim.write_text(json.dumps(mutated_value(chance, json.loads(victim.read_text()))))
    else:
        victim.write_bytes(mutated_bytes(chance, victim.read_bytes()))
    attempt(lambda: compute_activations(base, images, cache=folder / "cache"))


def kept_result(chance: random.Random, folder: Path) -> None:
    config = {"way": 2, "shot": 1, "queries": 1, "tasks": 4, "seed": 0}
    described = {"method": "m", "images": "i", "config": config}
    arrays: dict[str, Any] = {"per_task": np.full(4, 0.5), "confusion": np.eye(2, dtype=np.int64)}
    if chance.random() < 0.5:
        described = mutated_value(chance, described)
    else:
        arrays[chance.choice(list(arrays))] = chance.choice(
            [np.array(0.5), np.full(4, np.nan), np.array([["x"]]), np.zeros((2, 2)), np.zeros(0), -np.eye(2, dtype=int)]
        )
    file = io.BytesIO()
    chance.choice([np.savez, np.savez_compressed])(file, described=json.dumps(described), **arrays)
    content = file.getvalue()
    (folder / "r.npz").write_bytes(mutated_bytes(chance, content) if chance.random() < 0.3 else content)
    attempt(lambda: _read_result(folder / "r.npz"))


def log(chance: random.Random, folder: Path) -> None:
    started = {"event": "started", "step": 0, "steps": 9, "images": 5, "unvalidated": None}
    lines = [started, {"event": "finished", "step": 9, "seconds": 1.5}]
    texts = [json.dumps(mutated_value(chance, line)) for line in lines]
    content = ("\n".join(texts) + "\n").encode()
    (folder / "a.jsonl").write_bytes(mutated_bytes(chance, content) if chance.random() < 0.3 else content)
    attempt(lambda: read_log(folder / "a.jsonl"))


def hostile_object(chance: random.Random) -> Any:
    """What a pickle may hold in the place of data."""
    shared: Any = ["x"]
    for _ in range(40):
        shared = [shared, shared]
    circle: list[Any] = []
    circle.append(circle)
    arrays = [
        np.zeros((2, 2)),
        np.array(3),
        np.zeros(3, np.uint8),
        np.array(["a", "b"]),
        np.zeros((0, 4, 4, 3), np.uint8),
    ]
    return chance.choice(
        [*HOSTILE, *arrays, shared, circle, [[1], [1, 2]], {1: "a"}, {b"x": b"y"}, (1, 2), {3, 4}, b"\xff"]
    )


def pickle_file(chance: random.Random, folder: Path) -> None:
    data = np.zeros((6, 8, 8, 3), np.uint8)
    contents: list[dict[Any, Any]] = [
        {"data": data, "labels": [0, 0, 0, 1, 1, 1]},
        {"data": data, "labels": [0, 0, 0, 1, 1, 1], "catname2label": {"oak": 0, "elm": 1}},
        {"image_data": data, "class_dict": {"oak": [0, 1, 2], "elm": [3, 4, 5]}},
        {b"data": data, b"labels": np.array([0, 0, 0, 1, 1, 1]), b"names": {0: b"a", 1: b"b"}},
    ]
    content = chance.choice(contents)
    if chance.random() < 0.7:
        content[chance.choice(list(content))] = hostile_object(chance)
    dumped = pickle.dumps(content, chance.randrange(6))
    dumped = mutated_bytes(chance, dumped) if chance.random() < 0.5 else dumped
    (folder / "FC100_train.pickle").write_bytes(dumped)
    attempt(lambda: read_dataset(folder, "train"))


def archive(chance: random.Random, folder: Path) -> None:
    names = [f"class {number}" for number in range(100)]
    part = {"data": np.zeros((200, 3072), np.uint8), "fine_labels": [number % 100 for number in range(200)]}
    parts: dict[str, Any] = {"train": part, "test": copy.copy(part), "meta": {"fine_label_names": names}}
    victim = chance.choice(list(parts))
    if chance.random() < 0.7:
        parts[victim][chance.choice(list(parts[victim]))] = hostile_object(chance)
    target = folder / "cifar-100-python.tar.gz"
    with tarfile.open(target, "w:gz", compresslevel=1) as tar:
        for name, value in parts.items():
            member = tarfile.TarInfo(f"cifar-100-python/{name}")
            content = pickle.dumps(value, chance.randrange(6))
            member.size = len(content)
            if name == victim and chance.random() < 0.2:
                member.type = chance.choice([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
                member.linkname, member.size = chance.choice([member.name, "/etc/passwd", "../x"]), 0
            tar.addfile(member, io.BytesIO(content[: member.size]))
    if chance.random() < 0.3:
        target.write_bytes(mutated_bytes(chance, target.read_bytes()))
    (folder / "classes.json").write_text(json.dumps({"train": names[:2], "test": names[2:4]}))
    attempt(lambda: read_dataset(target, "train", splits=folder / "classes.json"))


def table(chance: random.Random, folder: Path) -> None:
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    rows = ["filename,label", *("a.png,oak" for _ in range(3)), chance.choice(NAMES) + "," + chance.choice(NAMES)]
    content = "\n".join(rows).encode(chance.choice(["utf-8", "utf-16", "latin-1", "utf-32"]), "replace")
    (folder / "train.csv").write_bytes(mutated_bytes(chance, content) if chance.random() < 0.4 else content)
    attempt(lambda: read_dataset(folder, "train"))


def image(chance: random.Random, folder: Path) -> None:
    format_, mode = chance.choice(
        [("JPEG", "RGB"), ("JPEG", "CMYK"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "I;16"), ("GIF", "P"), ("TIFF", "F"),
         ("TIFF", "RGB"), ("WEBP", "RGBA"), ("BMP", "RGB"), ("PPM", "RGB"), ("TIFF", "I")]
    )  # fmt: skip
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x112] = chance.randrange(10)
    Image.new(mode, (chance.randrange(1, 40), chance.randrange(1, 40))).save(file, format_, exif=exif)
    content = mutated_bytes(chance, file.getvalue())
    if chance.random() < 0.05:
        content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n" + content
    attempt(lambda: decode(content, 16))
    attempt(lambda: stored_size(content))


def names(chance: random.Random, folder: Path) -> None:
    """Folders and files of strange names, links and pipes, classified."""
    for _ in range(chance.randrange(1, 5)):
        place = folder / chance.choice(NAMES)
        place.mkdir(exist_ok=True)
        target = place / (chance.choice(NAMES) + ".png")
        target.unlink(missing_ok=True)  # a pipe of that name would wait for a reader
        match chance.randrange(5):
            case 0:
                with contextlib.suppress(OSError):
                    os.mkfifo(target)
            case 1:
                with contextlib.suppress(OSError):
                    (place / "link").symlink_to(chance.choice(["..", ".", "/dev", "nowhere", place.name]))
            case 2:
                target.write_bytes(b"")
            case _:
                Image.new("RGB", (8, 8)).save(target)
    pattern = chance.choice(["", "/**/*.png", "/**", "/*/*"])
    if chance.random() < 0.5:
        attempt(lambda: find_images([f"{folder}{pattern}"]))
        return
    classifier = str(FIXTURES / "classifier-prototypes-0.1.0.safetensors")
    shown = chance.choice([["--csv"], ["--json"], ["--jsonl", "--top", "3"], []])
    verb = chance.choice(["predict", "predict", "predict", "suggest"])
    command(verb, classifier, f"{folder}{pattern}", *(shown if verb == "predict" else []), folder=folder)


def labelled(chance: random.Random, folder: Path) -> None:
    """A folder of classes with strange names and files, as `check`, `score` and `fit` read it."""
    images = folder / "images"
    for name in chance.sample([*NAMES, ".hidden", "Ash"], chance.randrange(3)) + ["ash", "oak"][chance.randrange(2) :]:
        place = images / name
        place.mkdir(parents=True, exist_ok=True)
        for number in range(chance.choice([0, 1, 2, 2, 3, 3, 4, 5, 6])):
            target = place / chance.choice([f"{number}.png", f"{chance.choice(NAMES)}.jpg", f"{number}.txt"])
            size = chance.choice([(1, 1), (8, 8), (300, 2), (33, 40)])
            Image.new("RGB", size, tuple(chance.randrange(256) for _ in range(3))).save(target, "PNG")
            if chance.random() < 0.05:
                target.write_bytes(mutated_bytes(chance, target.read_bytes()))
    images.mkdir(exist_ok=True)
    classifier = str(FIXTURES / "classifier-prototypes-0.1.0.safetensors")
    base = str(FIXTURES / "base-0.1.0.safetensors")
    given = chance.choice([["--skip-bad"], ["--json"], []])
    match chance.randrange(4):
        case 0:
            command("check", str(images), "--base", base, *given, folder=folder)
        case 1:
            command("score", classifier, str(images), *given, folder=folder)
        case 2:
            out = ["--out", str(folder / "new.safetensors"), "--implants", "False"]
            command("fit", str(images), "--base", base, *out, *given, folder=folder)
        case _:
            out = ["--sort-into", str(folder / "sorted"), "--min-probability", "0.5"]
            command("predict", classifier, str(images), *out, folder=folder)


def answers(chance: random.Random, folder: Path) -> None:
    """A shard that lies there already, mutated; it is finished, made again or refused."""
    image = folder / "a.png"
    Image.new("RGB", (8, 8)).save(image)
    classifier = str(FIXTURES / "classifier-prototypes-0.1.0.safetensors")
    out = folder / f"answers{chance.choice(['.csv', '.jsonl', '.parquet'])}"
    first = out.with_name(f"answers-1-of-1{out.suffix}")
    write_rows(first, [dict.fromkeys(columns(1)) | {"image": str(image)}])
    first.write_bytes(mutated_bytes(chance, first.read_bytes()))
    command(
        "predict",
        classifier,
        str(image),
        "--out",
        str(out),
        "--shard",
        "1/1",
        *chance.choice([[], ["--overwrite"]]),
        folder=folder,
    )


def flags(chance: random.Random, folder: Path) -> None:
    """Random flags of every verb; a base or classifier that does not exist keeps those that are right from working."""
    none, data, out = str(folder / "none.safetensors"), ["--data", str(folder / "none")], str(folder / "new")
    starts = {
        "predict": [none, str(folder)],
        "score": [none, "x"],
        "check": [none],
        "suggest": [none, str(folder)],
        "explain": [none, "x", "--out", f"{out}.png"],
        "fit": [str(folder / "none")],
        "evaluate": ["--base", none, *data],
        "info": [none],
        "export": [none],
        "pretrain": [*data, "--out", f"{out}.safetensors"],
        "reproduce": ["table5", *data, "--out", out],
        "none": [],
        "": [],
    }
    verb = chance.choice(list(starts))
    known = [
        "--way", "--shot", "--tasks", "--seed", "--workers", "--threads", "--device", "--implants", "--implant-epochs",
        "--top", "--csv", "--json", "--refuse", "--unknown", "--out", "--report", "--kind", "--finer", "--iterations",
        "--epochs", "--width", "--image-size", "--recipe", "--splits", "--cache", "--add", "--remove", "--from",
        "--help",
        "--overwrite", "--resume", "--save-results", "--pooling", "--tau", "--tyro-print-completion", "--",
    ]  # fmt: skip
    values = [
        "1",
        "-1",
        "0",
        "x",
        "nan",
        "inf",
        "1e400",
        "9" * 40,
        "",
        "cpu",
        "cuda:99",
        "\x1b[31m",
        "None",
        "/dev/null",
    ]
    given = [chance.choice(known + values + NAMES) for _ in range(chance.randrange(5))]
    command(verb, *starts[verb], *given, folder=folder)


KINDS: dict[str, Case] = {
    case.__name__: case
    for case in (
        base_file,
        classifier_file,
        cache,
        kept_result,
        log,
        pickle_file,
        archive,
        table,
        image,
        names,
        labelled,
        answers,
        flags,
    )
}


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Time, processes and memory of what runs inside."""

    def late(*_: Any) -> None:
        raise Broken(f"it took more than {SECONDS} s")

    before = [signal.signal(number, late) for number in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(15 * SECONDS)
    started.clear()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(number, handler)
    if started:
        raise Broken(f"a process was started: {started}")


started: list[str] = []


def watch_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTED:
        started.append(f"{event} {arguments!r:.200}")


def run_case(kind: str, seed: int, number: int, keep: Path) -> bool:
    """One case; where it fails, its folder is kept and told."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with watched():
            KINDS[kind](random.Random(f"{seed} {kind} {number}"), folder)
        return True
    except BaseException:
        kept = keep / f"{kind}-{seed}-{number}"
        shutil.copytree(folder, kept, symlinks=True, dirs_exist_ok=True, ignore=lambda place, entries: [
            name for name in entries if not (Path(place) / name).is_file() and not (Path(place) / name).is_dir()
        ])  # fmt: skip
        print(
            f"FAILED {kind} (seed {seed}, case {number}; kept in {kept})\n{traceback.format_exc(limit=-6)}", flush=True
        )
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stretch(
    seconds: float, first: int, rounds: int, seed: int, keep: Path, kinds: list[str]
) -> tuple[Counter[str], Counter[str], float]:
    """Some rounds of all kinds, until their number or the time is up: cases and failures by kind, and peak memory."""
    sys.addaudithook(watch_processes)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, resource.RLIM_INFINITY))
    torch.set_num_threads(1)
    done, failed, began = Counter[str](), Counter[str](), time.monotonic()
    stopped = note_signals()
    for number in range(first, first + rounds):
        if stopped or time.monotonic() - began > seconds:
            break
        for kind in kinds:
            failed[kind] += not run_case(kind, seed, number, keep)
            done[kind] += 1
    return done, failed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def note_signals() -> list[int]:
    """A list that is filled when the run is to stop: a KeyboardInterrupt would be taken by the command that runs."""
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signalled, _: received.append(signalled))
    return received


def run(seconds: float, cases: int, seed: int, keep: Path, kinds: list[str]) -> int:
    """Cases of all kinds in turn, until the time or their number is up; prints how many of each there were.

    A process ends after some rounds, since commands are made for a process each: what their parser keeps adds up.
    """
    done, failed, peak, began, number = Counter[str](), Counter[str](), 0.0, time.monotonic(), 0
    stopped = note_signals()
    while not stopped and number < cases and (left := seconds - (time.monotonic() - began)) > 0:
        rounds = min(ROUNDS, cases - number)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            some, bad, most = process.submit(stretch, left, number, rounds, seed, keep, kinds).result()
        done, failed, peak, number = done + some, failed + bad, max(peak, most), number + rounds
    seconds, used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{done.total()} cases in {seconds:.0f} s, {failed.total()} failed; {used.ru_utime + used.ru_stime:.0f} s of "
        f"processor time, seed {seed}, peak {peak:.2f} GiB"
    )
    for kind in kinds:
        print(f"  {kind:16} {done[kind]:7} cases, {failed[kind]} failed")
    return 1 if failed.total() else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=10**9, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    chosen = parser.parse_args()
    sys.exit(run(chosen.seconds, chosen.cases, chosen.seed, chosen.keep, chosen.kinds))
