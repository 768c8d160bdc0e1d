import torch

from implanting.base import Validation
from implanting.pretraining import prepare
from toys import coloured, same, tiny_config

CPU = torch.device("cpu")


def test_a_description_says_where_it_stands():
    images = coloured()
    run = prepare(tiny_config(iterations=6, batch_size=8), images, None, CPU)
    run.step, run.seconds = 3, 2.0
    description = run.describe()
    training = description.training
    assert (training.step, training.steps, training.finished, training.seconds) == (3, 6, False, 2.0)
    assert (training.images_per_second, training.processes, training.device) == (12.0, 1, "cpu")
    assert description.data_fingerprint == images.fingerprint
    assert description.class_names == images.class_names
    run.step = 6
    assert run.describe().training.finished


def test_a_restored_run_stands_where_the_saved_one_stood(tmp_path):
    config, out = tiny_config(), tmp_path / "base.safetensors"
    run, other = (prepare(config, coloured(), None, CPU) for _ in range(2))
    for _ in range(2):
        run.train_step(run.model.train())
    run.note(0.5, 0.25, 3.0)
    run.validations.append(Validation(2, "prototypes", 3, 5, 0.5, None, 1))
    tensors = {f"network.{name}": value for name, value in run.model.network.state_dict().items()}
    tensors |= {f"classifier.{name}": value for name, value in run.model.classifier.state_dict().items()}
    other.restore(run.facts(), tensors, out)
    assert other.facts() == run.facts()
    assert same(other.model.state_dict(), run.model.state_dict())
