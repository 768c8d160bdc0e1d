"""Resume a run from its checkpoint, after checking that the checkpoint belongs to this very run."""

from pathlib import Path

from torch import Tensor

from implanting.base import BaseDescription, read_base
from implanting.config import PretrainConfig, flat
from implanting.errors import CheckpointError, ConfigError
from implanting.pretraining.run import Run
from implanting.runtime import from_rank_zero, rank

FREE = frozenset({"validate_every", "validation_tasks", "save_every"})
"""Settings that do not change the weights and so may differ when a run is resumed."""


def resume(run: Run, out: Path) -> None:
    """Continue from a checkpoint if there is one; only the host of rank 0 needs the file."""
    found = _read(run, out) if rank() == 0 and out.exists() else None
    saved = from_rank_zero(found)
    if saved is not None:
        description, tensors = saved
        run.restore(description.training, tensors, out)


def _read(run: Run, out: Path) -> tuple[BaseDescription, dict[str, Tensor]]:
    saved, tensors = read_base(out)
    check_same(saved, run.config, run.description.data_fingerprint, out, run.description.teacher_fingerprint)
    return saved, tensors


def check_same(
    saved: BaseDescription, config: PretrainConfig, data_fingerprint: str, out: Path, teacher: str | None = None
) -> None:
    """Refuse a checkpoint that was trained with other settings, on other images or, where both are known, by another
    teacher (its fingerprint).
    """
    if saved.retired:
        retired = ", ".join(f"`{name}` {value}" for name, value in saved.retired.items())
        raise CheckpointError(
            f"cannot go on from {out}: it was trained with {retired}, which this version cannot do any more; finish it "
            f"with version {saved.code_version}, or train again"
        )
    there, here = flat(saved.config), flat(config)
    differing = [
        f"`{name}` was {there[name]} and is {value}"
        for name, value in here.items()
        if name not in FREE and there[name] != value
    ]
    if saved.data_fingerprint != data_fingerprint:
        there_and_here = f"{saved.data_fingerprint[:8]}, here {data_fingerprint[:8]}"
        differing.append(f"it was trained on other images ({saved.data_name} of fingerprint {there_and_here})")
    if teacher and saved.teacher_fingerprint not in (None, teacher):
        differing.append(f"`teacher` {config.teacher} is another network now ({teacher[:8]})")
    if differing:
        raise ConfigError(f"cannot go on from {out}: {'; '.join(differing)}; give the same again, or another `out`")
