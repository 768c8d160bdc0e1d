import numpy as np
import pytest
import torch
from torch import nn

from implanting.base import load_base
from implanting.classifier.estimator import FewShotClassifier
from implanting.config import NetworkConfig
from implanting.errors import ConfigError
from implanting.export.module import ExportedClassifier, ImplantConvolutions
from implanting.implants import Implants
from implanting.implants.stream import new_implants
from implanting.networks import ImplantedLayer, Tail
from rounding import assert_near
from toys import coloured, noise, seeded, toy_base

IMAGES = coloured(classes=3, per_class=4, size=32)


def toy_classifier(implants: bool, **changes) -> FewShotClassifier:
    base = toy_base(**{"architecture": NetworkConfig("resnet12", 4), "pooling": "dense", **changes})
    classifier = FewShotClassifier(base, implants=implants, implant_channels=5, implant_epochs=3, unknown="none")
    names = np.array(["Eiche", "bøk", "松"])
    return classifier.fit(IMAGES.images.numpy(), names[IMAGES.labels.numpy()])


@pytest.mark.parametrize("implants", [True, False])
@pytest.mark.parametrize("pooling", ["dense", "gap"])
@pytest.mark.parametrize("network", ["resnet12", "c128f"])
@pytest.mark.parametrize("last_pool", [True, False])
def test_the_module_gives_what_the_classifier_gives(implants, pooling, network, last_pool):
    architecture = NetworkConfig(network, 4, last_pool=last_pool)
    classifier = toy_classifier(implants, pooling=pooling, architecture=architecture)
    images = torch.cat([IMAGES.images, noise(3, 32, 32, 3)])
    probabilities, scores = ExportedClassifier(classifier.learned_)(images)
    assert_near(probabilities.numpy(), classifier.predict_proba(images.numpy()), scale=1)
    assert_near(scores.numpy(), classifier.open_set_score(images.numpy()))


def test_a_head_on_the_generalised_mean_is_exported():
    base = toy_base(architecture=NetworkConfig("resnet12", 4), pooling="gap", centred=True)
    classifier = FewShotClassifier(base).fit(IMAGES.images.numpy(), IMAGES.labels.numpy())
    assert classifier.learned_.head is not None
    images = torch.cat([IMAGES.images, noise(3, 32, 32, 3)])
    for heat_map in (False, True):
        probabilities, *_ = ExportedClassifier(classifier.learned_, heat_map=heat_map)(images)
        assert_near(probabilities.numpy(), classifier.predict_proba(images.numpy()), scale=1)


@pytest.mark.parametrize("implants", [True, False])
def test_the_heat_map_is_that_of_explain(implants):
    classifier, image = toy_classifier(implants), noise(1, 32, 32, 3)
    *_, maps = ExportedClassifier(classifier.learned_, heat_map=True)(image)
    explained = classifier.explain(image[0].numpy(), top=3)
    order = [explained.classes.index(label) for label in classifier.classes_]
    assert_near(maps[0].numpy(), explained.map[order])


def test_an_oblong_or_larger_size_than_in_training_works():
    base = toy_base(architecture=NetworkConfig("resnet12", 4))
    classifier = FewShotClassifier(base, implants=True, implant_epochs=2, image_size=48)
    classifier.fit(IMAGES.images.numpy(), IMAGES.labels.numpy())
    images = noise(2, 48, 48, 3)
    probabilities, _, maps = ExportedClassifier(classifier.learned_, heat_map=True)(images)
    assert maps.shape == (2, 3, 3, 3)
    assert_near(probabilities.numpy(), classifier.predict_proba(images.numpy()), scale=1)


def test_a_flattened_map_has_no_heat_map():
    classifier = toy_classifier(False, pooling="flatten")
    with pytest.raises(ConfigError, match="without heat map"):
        ExportedClassifier(classifier.learned_, heat_map=True)


TAIL = Tail(
    (
        ImplantedLayer(0, 4, 5, stride=2, activation="relu6"),
        ImplantedLayer(1, 3, 3, below=0, activation="relu"),
        ImplantedLayer(1, 3, 1, below=1, adds=0, pool=2),
    )
)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("size", "weight"), [((7, 8), None), ((8, 6), torch.tensor([0.3]))])
def test_strides_residuals_kernels_and_weights_as_implants_have_them(size, weight):
    halved = -(-size[0] // 2), -(-size[1] // 2)
    sizes = (size, halved)
    implants: Implants = new_implants(TAIL, sizes, 2, [seeded(3)])
    for layer in implants.layers:
        layer.gamma = torch.rand(layer.gamma.shape, generator=seeded(1)) + 0.5
        layer.beta = torch.rand(layer.beta.shape, generator=seeded(2)) - 0.5
    maps = [torch.randn(1, 6, r * c, n, generator=seeded(4)) for (r, c), n in zip(sizes, (4, 3), strict=True)]
    implants.fix_statistics(maps)
    implants.weight = None if weight is None else weight.double()
    queries = [part[:, :2] * 1.3 for part in maps]
    expected = implants(queries)[0]
    grids = [part[0].mT.unflatten(2, one) for part, one in zip(queries, sizes, strict=True)]
    found = ImplantConvolutions(implants)(grids)
    torch.testing.assert_close(found.flatten(2).mT, expected)


def test_implants_without_statistics_are_refused():
    with pytest.raises(ConfigError, match="fit again"):
        ImplantConvolutions(new_implants(TAIL, ((8, 8), (4, 4)), 2, [seeded()]))


def test_torchs_generator_is_left_alone():
    classifier = toy_classifier(True)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    ExportedClassifier(classifier.learned_)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("implants", [True, False])
def test_efficientnet_lite0_too(implants):
    base = load_base("efficientnet-lite0")
    classifier = FewShotClassifier(base, implants=implants, implant_epochs=1, implant_channels=3, image_size=64)
    classifier.fit(IMAGES.images[:6].numpy(), IMAGES.labels[:6].numpy())
    images = torch.cat([IMAGES.images[6:8].repeat_interleave(2, 1).repeat_interleave(2, 2), noise(2, 64, 64, 3)])
    probabilities, scores = ExportedClassifier(classifier.learned_)(images)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in base.quick.modules())
    assert_near(probabilities.numpy(), classifier.predict_proba(images.numpy()), scale=1)
    assert_near(scores.numpy(), classifier.open_set_score(images.numpy()))
