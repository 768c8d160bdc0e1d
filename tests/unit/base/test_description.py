"""What stage 1 leaves behind."""

import json

import torch

from implanting.base import BaseDescription, build
from implanting.base.base_network import weights
from toys import same, tiny_config, toy_base


def test_a_description_survives_json():
    description = toy_base().description
    assert BaseDescription.from_document(json.loads(json.dumps(description.document()))) == description


def test_files_of_earlier_versions_say_nothing_of_a_teacher():
    description = toy_base().description
    document = description.document()
    del document["teacher_fingerprint"]
    assert BaseDescription.from_document(document) == description


def test_initial_weights_are_those_of_the_seed_and_leave_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, again, other = (weights(*build(tiny_config(seed=seed), 3, (32, 32))) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert same(first, again)
    assert not same(first, other)
