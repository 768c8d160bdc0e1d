import pytest
import torch
from torch import Tensor, nn

from implanting import evaluate
from implanting.base import BaseNetwork, base_document
from implanting.config import ImplantConfig
from implanting.dense_classification import locations
from implanting.errors import ConfigError, ImageTooSmall
from implanting.images import Normalisation, Preprocessing
from implanting.networks import ImplantedModule
from implanting.networks.resnet12 import resnet12
from rounding import assert_near, exactly
from toys import coloured, noise, same, unsettle

PREPROCESSING = Preprocessing((32, 32), Normalisation((0.4, 0.5, 0.6), (0.2, 0.25, 0.3)))

RESIDUAL = (
    ImplantedModule("blocks.3.conv1", "swish"),
    ImplantedModule("blocks.3.conv2", "swish", below=0),
    ImplantedModule("blocks.3.conv3", below=1),
    ImplantedModule("blocks.3.shortcut", "swish", adds=2, pool=2),
)
"""The last block of ResNet-12, as one who knows nothing of ours would describe it."""


class Convolutions(nn.Module):
    """A map of 8 channels at a quarter of the image's side, or the classes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.second = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.classes = nn.Linear(8, 5)

    def forward_features(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu()).relu()

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.forward_features(x).mean((2, 3)))


class Tokens(nn.Module):
    """A class token, then one for each patch of 8 x 8 px."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 6, 8, stride=8)
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.mix = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        return self.mix(torch.cat([self.token.expand(len(x), -1, -1), patches], 1))


def convolutions(**settings) -> BaseNetwork:
    torch.manual_seed(0)
    return BaseNetwork.from_module(Convolutions(), PREPROCESSING, method="forward_features", **settings)


def test_a_described_resnet12_is_the_built_in_one():
    network = resnet12(2).eval()
    unsettle(network)
    base = BaseNetwork.from_module(network, PREPROCESSING, tau=10.0, tail=RESIDUAL)
    assert base.tail == network.tail
    images = noise(3, 32, 48, 3)
    maps, phi = base.activations(images)
    for own, expected, tolerance in zip(
        [*maps, phi], *exactly(network, PREPROCESSING.normalisation(images)), strict=True
    ):
        assert (own - expected).abs().max() <= tolerance
    assert base.map_size(32, 48) == (2, 3)


def test_a_map_is_embedded_as_it_is():
    base, images = convolutions(), noise(3, 32, 20, 3)
    x = PREPROCESSING.normalisation(images)
    assert_near(base.embed(images), locations(base.network.module.forward_features(x)))
    assert (base.map_size(32, 20), base.network.dim, base.name) == ((8, 5), 8, "Convolutions")


@pytest.mark.parametrize(("size", "grid"), [((32, 32), (4, 4)), ((32, 48), (4, 6)), ((24, 80), (3, 10))])
def test_tokens_are_laid_out_as_the_image_is_without_the_class_token(size, grid):
    module = Tokens().eval()
    base, images = BaseNetwork.from_module(module, PREPROCESSING, prefix_tokens=1), noise(2, *size, 3)
    with torch.no_grad():
        expected = module(PREPROCESSING.normalisation(images))[:, 1:]
    assert_near(base.embed(images), expected)
    assert base.map_size(*size) == grid
    assert base.activations(images)[1].shape == (2, 6, *grid)
    assert_near(base.activations(images)[1][0, :, 0, -1], expected[0, grid[1] - 1])


def test_prototypes_and_implants_of_ones_own_network():
    image_set = coloured(classes=4, per_class=8, size=32)
    tail = (ImplantedModule("first", "relu"), ImplantedModule("second", "relu", below=0))
    base = convolutions(tau=10.0, tail=tail)
    settings = {"way": 3, "shot": 3, "queries": 4, "tasks": 6}
    before = {name: value.clone() for name, value in base.network.state_dict().items()}
    for pooling in ("gap", "dense"):
        assert evaluate(base, image_set, query_pooling=pooling, **settings).mean > 0.8
    implanted = evaluate(base, image_set, implants=ImplantConfig(implant_channels=4), **settings)
    assert implanted.method == "implants (gap/gap)"
    assert implanted.mean > 0.8
    assert same(base.network.state_dict(), before)


def test_the_module_given_stays_as_it_was():
    module = Convolutions().train()
    base = BaseNetwork.from_module(module, PREPROCESSING, method="forward_features")
    assert module.training
    assert all(parameter.requires_grad for parameter in module.parameters())
    with torch.no_grad():
        module.first.weight.zero_()
    assert base.network.module.first.weight.abs().sum() > 0


def test_without_a_tail_the_error_says_what_is_missing():
    image_set = coloured(classes=3, per_class=6, size=32)
    with pytest.raises(ConfigError, match=r"last layers, which Convolutions has none of: .* tail="):
        evaluate(convolutions(tau=10.0), image_set, way=3, shot=2, queries=2, tasks=2, implants=True)


def test_without_a_tau_the_error_says_how_to_get_one():
    with pytest.raises(ConfigError, match=r"Convolutions has no tau.*with_tau_from"):
        _ = convolutions().tau
    assert convolutions().with_tau(7.0).tau == 7.0


def test_a_layer_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"no layer 'third'.*first, second"):
        convolutions(tail=(ImplantedModule("third"),))
    with pytest.raises(ConfigError, match=r"'classes' is a Linear"):
        convolutions(tail=(ImplantedModule("classes"),))


def test_a_tail_that_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"layer 0: its output has 16 x 16 locations, but 8 x 8"):
        convolutions(tail=(ImplantedModule("first", "relu"),))
    with pytest.raises(ConfigError, match=r"layer 1: the implant below it has 8 x 8 locations, but 16 x 16"):
        convolutions(tail=(ImplantedModule("first", "relu", pool=2), ImplantedModule("second", below=0)))
    with pytest.raises(ConfigError, match=r"layer 1: what it adds has 16 x 16 locations, but 8 x 8"):
        convolutions(tail=(ImplantedModule("first", "relu"), ImplantedModule("second", adds=0)))


def test_a_module_without_a_map_is_refused():
    with pytest.raises(ConfigError, match=r"returns a tensor \[1, 5\]; a map .* needed.*forward_features"):
        BaseNetwork.from_module(Convolutions(), PREPROCESSING)


def test_tokens_that_make_no_grid_are_refused():
    with pytest.raises(ConfigError, match=r"17 tokens .*prefix_tokens \(now 0\)"):
        BaseNetwork.from_module(Tokens(), PREPROCESSING)


def test_too_small_an_image_is_refused():
    base = BaseNetwork.from_module(Tokens(), PREPROCESSING, prefix_tokens=1)
    with pytest.raises(ImageTooSmall, match="does not take images of 32 x 7 px"):
        base.embed(noise(1, 7, 32, 3))


def test_it_cannot_be_embedded_in_a_file():
    with pytest.raises(ConfigError, match=r"network of your own.*save slim"):
        base_document(convolutions(tau=10.0))


def test_other_weights_or_another_module_have_another_fingerprint():
    base = convolutions()
    assert base.fingerprint == convolutions().fingerprint
    torch.manual_seed(1)
    other = BaseNetwork.from_module(Convolutions(), PREPROCESSING, method="forward_features")
    assert other.fingerprint != base.fingerprint
