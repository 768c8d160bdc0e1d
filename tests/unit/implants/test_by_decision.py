from dataclasses import replace

import torch

from implanting.fewshot import PrototypeMethod, draw_tasks
from implanting.implants import DecidedMethod
from implanting.implants.by_decision import HeldOut, implants_help
from implanting.implants.fitting import cross_fit_implants, cross_fit_prototypes
from toy_methods import CONFIG, NOVEL, implant_method

MORE_SHOTS = draw_tasks(NOVEL, replace(CONFIG, shot=4))


def test_each_task_takes_implants_or_prototypes_as_its_held_out_supports_say():
    implants = implant_method(margin=0.0)
    prototypes = PrototypeMethod(implants.activations.phi, implants.fitting.by_prototypes)
    supports, fitting = implants.supports(MORE_SHOTS), implants.fitting
    by_implants = cross_fit_implants(supports, fitting, implants.generators(MORE_SHOTS))
    held_out = HeldOut(supports.labels, cross_fit_prototypes(supports, fitting), by_implants)
    helped = implants_help(held_out, implants.fitting.config)
    assert 0 < helped.sum() < 10
    expected = torch.where(helped[:, None, None], implants(MORE_SHOTS)[1], prototypes(MORE_SHOTS)[1])
    assert torch.equal(DecidedMethod(implants)(MORE_SHOTS)[1], expected)
    sure = implant_method(margin=100.0)
    assert torch.equal(DecidedMethod(sure)(MORE_SHOTS)[1], implants(MORE_SHOTS)[1])
