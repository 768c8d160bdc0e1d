import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

from implanting.datasets import BASE_DIGITS, NOVEL_DIGITS, read_digits


def test_base_and_novel_digits_share_nothing_and_miss_nothing():
    base, novel = read_digits(BASE_DIGITS, "base"), read_digits(NOVEL_DIGITS, "novel")
    assert base.class_names + novel.class_names == tuple("0123456789")
    assert len(base) + len(novel) == 1797
    assert base.images.shape[1:] == (32, 32, 3)


def test_images_are_the_digits_of_their_labels_enlarged():
    digits = read_digits(NOVEL_DIGITS, "novel")
    originals = load_digits()
    chosen = originals.target >= 5
    assert digits.labels.tolist() == (originals.target[chosen] - 5).tolist()
    shrunk = F.avg_pool2d(digits.images[..., 0].float(), 4)
    error = (shrunk - torch.from_numpy(originals.images[chosen]) * 255 / 16).abs().mean()
    assert error < 12
    assert (digits.images == digits.images[..., :1]).all()
