import pytest
import torch
from torch import nn

from implanting.errors import ConfigError
from implanting.runtime import choose_device, process_group, rank, restarted, share, synchronise, world_size


def test_one_process_has_everything():
    assert (rank(), world_size(), restarted()) == (0, 1, False)
    assert share(10) == slice(0, 10)


def test_shares_cover_the_batch(monkeypatch):
    shares = []
    for number in range(4):
        monkeypatch.setattr("implanting.runtime.processes.group", lambda number=number: (number, 4))
        shares.append(list(range(12))[share(12)])
    assert [len(part) for part in shares] == [3, 3, 3, 3]
    assert [item for part in shares for item in part] == list(range(12))


def test_synchronise_is_the_identity_in_one_process():
    layer = nn.BatchNorm2d(3)
    layer.running_mean.fill_(2.5)
    before = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    figures = torch.tensor([1.0, 2.0])
    assert torch.equal(synchronise(layer, figures), torch.tensor([1.0, 2.0]))
    assert all(torch.equal(buffer, before[name]) for name, buffer in layer.named_buffers())


def test_one_process_joins_no_group():
    with process_group(torch.device("cpu")):
        assert not torch.distributed.is_initialized()


def test_devices():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ConfigError, match="`device` abacus"):
        choose_device("abacus")


def test_torchrun_says_when_it_has_restarted(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert restarted()
