import pytest

from implanting.errors import ConfigError
from implanting.networks import ImplantedLayer, Tail
from implanting.networks.resnet12 import resnet12


def test_the_tail_of_resnet12_is_its_last_block():
    first, second, third, shortcut = resnet12(64).tail.layers
    assert [layer.channels for layer in (first, second, third, shortcut)] == [256, 512, 512, 256]
    assert [layer.kernel for layer in (first, second, third, shortcut)] == [3, 3, 3, 1]
    assert (first.below, second.below, third.below, shortcut.below) == (None, 0, 1, None)
    assert (third.activation, shortcut.adds, shortcut.activation, shortcut.pool) == (None, 2, "swish", 2)
    assert [layer.reads for layer in (first, second, third, shortcut)] == [0, 1, 2, 0]


@pytest.mark.parametrize("wrong", [{"below": 1}, {"below": 2}, {"adds": 1}, {"adds": -1}])
def test_a_layer_that_is_not_there_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"implanted layer 1 says .* no such layer before it"):
        Tail((ImplantedLayer(0, 4, 3), ImplantedLayer(0, 4, 3, **wrong)))


def test_a_tail_without_layers_is_refused():
    with pytest.raises(ConfigError, match="at least one"):
        Tail(())
