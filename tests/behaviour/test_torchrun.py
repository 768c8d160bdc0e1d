"""Two processes train as one: the ranks stay bitwise equal, and equal to one process doing the same arithmetic."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from commands import implanting, pretrain_command, reproduce_command, same_weights, write_fc100
from implanting.base import load_base
from implanting.base.base_network import weights
from implanting.cli import main
from implanting.datasets import read_dataset
from implanting.dense_classification import classification_loss
from implanting.pretraining import batch, prepare
from implanting.pretraining.optimisation import schedule

LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
STEPS = 6


def torchrun(data: Path, out: Path, *flags: str) -> None:
    command = pretrain_command(data, out)[1:]
    implanting(*LAUNCHER, *command, "--iterations", str(STEPS), *flags)


def halves_in_turn(data: Path, out: Path) -> dict[str, torch.Tensor]:
    """The slow twin: one process runs each rank's half of a batch by itself and averages gradients and statistics."""
    run = prepare(load_base(out).description.config, read_dataset(data, "train"), None, torch.device("cpu"))
    model = run.model.train()
    for step in range(STEPS):
        images, labels, _ = batch(run.images, run.config.augment, run.config.batch_size, run.config.seed, step)
        before = {name: value.clone() for name, value in model.named_buffers()}
        statistics = []
        run.optimizer.zero_grad()
        for half in (slice(0, 8), slice(8, 16)):
            model.load_state_dict(before, strict=False)
            loss = classification_loss(model(run.inputs(images[half])).classes, labels[half])
            (loss / 2).backward()
            statistics.append({name: value.clone() for name, value in model.named_buffers()})
        averages = {
            name: (statistics[0][name] + statistics[1][name]) / 2
            if before[name].is_floating_point()
            else statistics[0][name]
            for name in before
        }
        model.load_state_dict(averages, strict=False)
        for group in run.optimizer.param_groups:
            group["lr"] = schedule(run.config, (step + 0.5) / STEPS)
        run.optimizer.step()
        run.step += 1
    return weights(model.network, model.classifier)


def test_two_workers_equal_one_process_that_takes_the_halves_in_turn(tmp_path: Path) -> None:
    data, out = write_fc100(tmp_path), tmp_path / "base.safetensors"
    implanting(*pretrain_command(data, out), "--iterations", str(STEPS), "--workers", "2")
    slow = halves_in_turn(data, out)
    for name, value in load_file(out).items():
        torch.testing.assert_close(value, slow[name].detach(), rtol=1e-4, atol=1e-5)


def test_a_trial_chooses_processes_and_threads(tmp_path: Path) -> None:
    data, out = write_fc100(tmp_path), tmp_path / "base.safetensors"
    done = implanting(*pretrain_command(data, out), "--iterations", "4", "--batch-size", "32", "--workers", "auto")
    chosen = re.search(r"training in (\d+) process(?:es)? of \d+ threads? \((.*)\)", done.stderr)
    assert chosen is not None
    speeds = [float(each) for each in re.findall(r"(\d+) images/s", chosen[2])]
    assert len(speeds) == min(2, os.cpu_count() or 1)
    assert speeds[0] == speeds[-1] or (int(chosen[1]) > 1) == (speeds[-1] > speeds[0])
    assert load_base(out).finished


def test_a_run_that_is_resumed_keeps_its_processes(tmp_path: Path) -> None:
    data, out = write_fc100(tmp_path), tmp_path / "base.safetensors"
    begun = [*pretrain_command(data, out), "--iterations", "3", "--batch-size", "32"]
    implanting(*begun, "--workers", "2")
    done = implanting(*begun, "--workers", "auto", "--resume")
    assert re.search(r"training in 2 processes of \d+ threads?, as before", done.stderr)


def test_processes_share_what_a_teacher_is_asked(tmp_path: Path) -> None:
    """Each of two processes asks about half of the images, and both know the answers for all."""
    data, teacher = write_fc100(tmp_path), tmp_path / "teacher.safetensors"
    implanting(*pretrain_command(data, teacher), "--iterations", "3")
    program = tmp_path / "ask.py"
    program.write_text(
        "import sys, torch\n"
        "from implanting.base import load_base\n"
        "from implanting.datasets import read_dataset\n"
        "from implanting.pretraining import teacher as asking\n"
        "from implanting.runtime import process_group, rank\n"
        "teacher, images = load_base(sys.argv[1]), read_dataset(sys.argv[2], 'train')\n"
        "alone, views, phi = asking.soft_labels(teacher, images), [], asking._phi\n"
        "def counted(teacher, images, precision):\n"
        "    views.append(len(images))\n"
        "    return phi(teacher, images, precision)\n"
        "asking._phi = counted\n"
        "with process_group(torch.device('cpu')):\n"
        "    together = asking.soft_labels(teacher, images)\n"
        "torch.testing.assert_close(together, alone)\n"
        "assert abs(sum(views) - len(images)) <= 2, (sum(views), len(images))  # two views of half of the images\n"
        "open(f'{sys.argv[3]}/asked{rank()}', 'w').close()\n"
    )
    implanting(*LAUNCHER, str(program), str(teacher), str(data), str(tmp_path))
    assert sorted(path.name for path in tmp_path.glob("asked*")) == ["asked0", "asked1"]


def test_two_workers_train_on_the_episodes_of_one(tmp_path: Path) -> None:
    """The second stage has a frozen network, hence no statistics of a batch: only the order of sums may differ."""
    data, first = write_fc100(tmp_path), tmp_path / "first.safetensors"
    shared = ["--data", str(data), "--width", "2", "--pooling", "gap", "--validation-tasks", "0", "--iterations", "3"]
    episodes = ["--train-way", "3", "--train-shot", "2", "--train-queries", "2", "--episodes", "2"]
    second = [
        "--method",
        "gidaris",
        "--start",
        str(first),
        *episodes,
        "--optimizer",
        "adam",
        "--learning-rate",
        "0.001",
    ]
    assert main(["pretrain", *shared, "--out", str(first)]) == 0
    assert main(["pretrain", *shared, *second, "--out", str(tmp_path / "one.safetensors")]) == 0
    command = [sys.executable, "-m", "implanting", "pretrain", *shared, *second, "--workers", "2"]
    implanting(*command, "--out", str(tmp_path / "two.safetensors"))
    two = load_file(tmp_path / "two.safetensors")
    for name, value in load_file(tmp_path / "one.safetensors").items():
        torch.testing.assert_close(two[name], value, rtol=1e-4, atol=1e-6)


def test_all_ranks_end_bitwise_equal(tmp_path: Path) -> None:
    data = write_fc100(tmp_path)
    program = tmp_path / "ranks.py"
    program.write_text(
        "import os, sys, torch\n"
        "from pathlib import Path\n"
        "from implanting.pretraining import Run\n"
        "from implanting.base.files import save_base\n"
        "from implanting.cli import main\n"
        "Run.save = lambda self, out: save_base(\n"
        "    out.with_name('rank' + os.environ['RANK']), self.model.network, self.model.classifier, self.describe())\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = pretrain_command(data, tmp_path / "base.safetensors")[3:]
    implanting(*LAUNCHER, str(program), *arguments, "--iterations", str(STEPS))
    assert same_weights(tmp_path / "rank0", tmp_path / "rank1")
    assert os.environ.get("RANK") is None


def test_a_restarted_worker_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    """One rank dies once, at step 4; torchrun starts the workers again, and the weights are those of a calm run.

    Each rank works in a folder of its own, as on hosts that share no disk: only rank 0 has the checkpoint.
    """
    data, calm = write_fc100(tmp_path), tmp_path / "calm.safetensors"
    torchrun(data, calm)
    program = tmp_path / "failing.py"
    program.write_text(
        "import os, sys\n"
        f"folder = {str(tmp_path)!r} + '/rank' + os.environ['RANK']\n"
        "os.makedirs(folder, exist_ok=True)\n"
        "os.chdir(folder)\n"
        "from implanting.pretraining import Run\n"
        "from implanting.cli import main\n"
        "step = Run.train_step\n"
        "def failing(run, model):\n"
        "    if run.step == 4 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os.environ['RANK'] == '1':\n"
        "        os._exit(3)\n"
        "    return step(run, model)\n"
        "Run.train_step = failing\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    flags = ["--iterations", str(STEPS), "--save-every", "0", "--overwrite"]
    arguments = [*pretrain_command(data, Path("base.safetensors"))[3:], *flags]
    finished = implanting(*LAUNCHER, "--max-restarts", "1", str(program), *arguments)
    assert "step 0 of 6" in finished.stderr
    assert "step 4 of 6" in finished.stderr
    assert same_weights(tmp_path / "rank0" / "base.safetensors", calm)
    assert not (tmp_path / "rank1" / "base.safetensors").exists()


def test_the_tasks_of_an_evaluation_are_shared_without_a_trace(tmp_path: Path) -> None:
    data, out = write_fc100(tmp_path), tmp_path / "base.safetensors"
    implanting(*pretrain_command(data, out), "--iterations", "4")
    settings = ["--split", "val", "--way", "4", "--shot", "1", "3", "--queries", "8", "--tasks", "21", "--implants"]
    command = ["evaluate", "--base", str(out), "--data", str(data), *settings, "--implant-epochs", "5", "--json"]
    alone, *shared = (
        json.loads(implanting(sys.executable, "-m", "implanting", *command, *workers).stdout.splitlines()[-1])[
            "results"
        ]
        for workers in ([], ["--workers", "2"], ["--workers", "3"])
    )
    assert [row["method"] for row in alone] == ["prototypes (gap/dense)"] * 2 + ["implants (gap/dense)"]
    assert shared == [alone, alone]


def test_a_table_is_trained_and_tested_by_two_processes_as_by_one(tmp_path: Path) -> None:
    data, out = write_fc100(tmp_path), tmp_path / "out"
    command = [*reproduce_command(data, out), "--shot", "5", "--iterations", "4"]
    shared = json.loads(implanting(*command, "--workers", "2").stdout.splitlines()[-1])["results"]
    assert load_base(out / "resnet12-dense.safetensors").description.training.processes == 2
    shutil.rmtree(out / "results")
    alone = json.loads(implanting(*command).stdout.splitlines()[-1])["results"]
    assert shared == alone
    assert [row["tasks"] for row in alone if "tasks" in row] == [13] * 3


def test_a_worker_that_is_killed_is_told_in_one_line(tmp_path: Path) -> None:
    data, out = write_fc100(tmp_path), tmp_path / "base.safetensors"
    implanting(*pretrain_command(data, out), "--iterations", "4")
    program = tmp_path / "dying.py"
    program.write_text(
        "import os, signal, sys\n"
        "from implanting import cli\n"
        "from torch.distributed import run\n"
        "parse = run.parse_args\n"
        "def dying(settings):\n"
        "    chosen = parse(settings)\n"
        "    chosen.module, chosen.training_script = False, __file__\n"
        "    chosen.training_script_args = []\n"
        "    return chosen\n"
        "if 'RANK' in os.environ:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "run.parse_args = dying\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    settings = ["--split", "val", "--way", "4", "--shot", "1", "--queries", "8", "--tasks", "21", "--workers", "2"]
    command = [sys.executable, str(program), "evaluate", "--base", str(out), "--data", str(data), *settings]
    assert "was ended by SIGKILL" in implanting(*command, status=2).stderr.splitlines()[-1]


def test_what_all_processes_find_wrong_is_said_once(tmp_path: Path) -> None:
    arguments = ["-m", "implanting", "evaluate", "--base", str(tmp_path / "none.safetensors"), "--data", str(tmp_path)]
    finished = implanting(*LAUNCHER, *arguments, status=1)  # torchrun's own, which says more than we do
    assert finished.stderr.count("implanting: ") == 1
