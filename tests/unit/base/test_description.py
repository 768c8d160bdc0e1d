"""What stage 1 leaves behind."""

import dataclasses
import json

import pytest
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


def test_settings_that_are_gone_and_never_changed_a_weight_are_left_out():
    description = toy_base().description
    document = description.document()
    document["config"] |= {"validation_images": 30, "label_smoothing": 0.0}
    assert BaseDescription.from_document(document) == description


@pytest.mark.parametrize("gone", [{"label_smoothing": 0.1}, {"schedule": "constant"}])
def test_a_setting_that_is_gone_is_remembered_where_it_changed_the_weights(gone):
    description = toy_base().description
    document = description.document()
    document["config"] |= gone
    described = BaseDescription.from_document(document)
    assert described == dataclasses.replace(description, retired=gone)
    assert BaseDescription.from_document(json.loads(json.dumps(described.document()))) == described


def test_initial_weights_are_those_of_the_seed_and_leave_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, again, other = (weights(*build(tiny_config(seed=seed), 3, (32, 32))) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert same(first, again)
    assert not same(first, other)
