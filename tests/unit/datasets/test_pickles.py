"""The pickles published for FC100, CIFAR-FS and miniImageNet."""

import pickle

import numpy as np
import pytest

import python2_pickle
from implanting.datasets import check_disjoint, read_dataset
from implanting.errors import DataError
from implanting.images import RESIZING
from implanting.images.many import AS_STORED


def write(path, content):
    path.write_bytes(pickle.dumps(content))


def levels(images):
    return images.images[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("file", ["FC100_val.pickle", "fc100_val.PKL", "FC100-valid.pkl"])
def test_data_and_labels_with_names(tmp_path, grey_images, file):
    content = {"data": grey_images([5, 6, 7]), "labels": [30, 4, 30], "names": {4: "oak", 30: "ash"}}
    write(tmp_path / file, content)
    found = read_dataset(tmp_path, "val")
    assert (found.name, found.class_names, found.resizing) == ("FC100 val", ("oak", "ash"), AS_STORED)
    assert (found.labels.tolist(), levels(found)) == ([1, 0, 1], [5, 6, 7])
    assert found.images.shape == (3, 4, 4, 3)


def test_classes_without_names_are_called_by_number_in_order(tmp_path, grey_images):
    write(tmp_path / "CIFAR_FS_train.pickle", {"data": grey_images([0, 1, 2, 3]), "labels": np.array([10, 9, 10, 9])})
    found = read_dataset(tmp_path)
    assert (found.name, found.class_names, found.labels.tolist()) == ("CIFAR-FS train", ("9", "10"), [1, 0, 1, 0])


def test_python_2(tmp_path, grey_images):
    content = {"data": grey_images([1, 2]), "labels": [0, 1], "catname2label": {"n01": 1, "n02": 0}}
    (tmp_path / "miniImageNet_category_split_test.pickle").write_bytes(python2_pickle.dumps(content))
    found = read_dataset(tmp_path, "test")
    assert (found.name, found.class_names) == ("miniImageNet test", ("n02", "n01"))


def test_train_phases_of_mini_imagenet(tmp_path, grey_images):
    for number, phase in enumerate(("train", "val", "test")):
        content = {"data": grey_images([number] * 4), "labels": [0, 0, 1, 1]}
        write(tmp_path / f"miniImageNet_category_split_train_phase_{phase}.pickle", content)
    write(tmp_path / "miniImageNet_category_split_val.pickle", {"data": grey_images([9]), "labels": [64]})
    splits = ("train", "train_phase_val", "train_phase_test", "val")
    found = [read_dataset(tmp_path, split) for split in splits]
    assert [levels(images)[0] for images in found] == [0, 1, 2, 9]
    assert found[0].class_names == found[1].class_names == found[2].class_names
    check_disjoint(found[0], found[3])


def test_cache_with_class_dictionary(tmp_path, grey_images):
    content = {"image_data": grey_images([1, 2, 3, 4]), "class_dict": {"n02": [0, 3], "n01": np.array([1, 2])}}
    write(tmp_path / "mini-imagenet-cache-train.pkl", content)
    found = read_dataset(tmp_path)
    assert (found.name, found.class_names, found.labels.tolist()) == (
        "miniImageNet train",
        ("n01", "n02"),
        [1, 0, 0, 1],
    )


def test_single_file(tmp_path, grey_images):
    for split in ("train", "val"):
        write(tmp_path / f"FC100_{split}.pickle", {"data": grey_images([1]), "labels": [0]})
    assert len(read_dataset(tmp_path / "FC100_val.pickle", "val")) == 1
    with pytest.raises(DataError, match="no split 'train'; it has val"):
        read_dataset(tmp_path / "FC100_val.pickle", "train")


def test_only_the_split_that_is_read_is_opened(tmp_path, grey_images):
    write(tmp_path / "FC100_val.pickle", {"data": grey_images([1]), "labels": [0]})
    (tmp_path / "FC100_train.pickle").write_bytes(b"damaged")
    assert len(read_dataset(tmp_path, "val")) == 1


@pytest.mark.parametrize("budget", [0, 10**6])
def test_another_size(tmp_path, grey_images, budget):
    write(tmp_path / "FC100_val.pickle", {"data": grey_images([5, 6]), "labels": [0, 1]})
    found = read_dataset(tmp_path, "val", image_size=7, budget=budget)
    assert (found.images.shape, found.resizing, levels(found)) == ((2, 7, 7, 3), RESIZING, [5, 6])


def test_read_only_arrays(tmp_path, grey_images):
    data = grey_images([5, 6])
    data.flags.writeable = False
    (tmp_path / "FC100_val.pickle").write_bytes(pickle.dumps({"data": data, "labels": [0, 1]}, 5))
    assert levels(read_dataset(tmp_path, "val")) == [5, 6]


GOOD = np.zeros((2, 4, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "holds a list; needed is a dictionary"),
        ({"labels": [0, 1]}, "needed is an array 'data' or 'image_data'"),
        ({"data": GOOD}, "needed are a list 'labels'"),
        ({"data": GOOD, "labels": [0]}, "2 images and 1 labels"),
        ({"data": GOOD, "labels": [0, None]}, "label of image 1 is NoneType"),
        ({"data": GOOD.astype(np.float32), "labels": [0, 1]}, r"float32 \[2, 4, 4, 3\]; needed is uint8"),
        ({"data": GOOD.transpose(0, 3, 1, 2), "labels": [0, 1]}, r"uint8 \[2, 3, 4, 4\]; needed is"),
        ({"data": GOOD[:0], "labels": []}, "no images"),
        ({"image_data": GOOD, "class_dict": {"a": [0]}}, "image 1 is in no class"),
        ({"image_data": GOOD, "class_dict": {"a": [0, 1, 2]}}, "class 'a' has image 2 of 2"),
    ],
)
def test_bad_content(tmp_path, content, message):
    write(tmp_path / "FC100_val.pickle", content)
    with pytest.raises(DataError, match=rf"FC100_val\.pickle.*{message}"):
        read_dataset(tmp_path, "val")


def test_two_data_sets_in_one_folder(tmp_path):
    for name in ("FC100_train.pickle", "CIFAR_FS_train.pickle"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match="pickles of 2 data sets"):
        read_dataset(tmp_path)


def test_class_lists_are_refused(tmp_path):
    (tmp_path / "FC100_train.pickle").write_bytes(b"")
    with pytest.raises(DataError, match="comes with its own splits; `splits` fc100"):
        read_dataset(tmp_path, splits="fc100")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": None}, "needed are a list 'labels'"),
        ({"labels": np.array(3)}, "labels is int64 .* needed is a list"),
        ({"labels": [[0], [0, 1]]}, "label of image 0 is list"),
        ({"labels": [0, "oak"]}, "some labels are numbers and some are names"),
        ({"labels": [True, False]}, "label of image 0 is bool"),
        ({"labels": [0, 2**70]}, "label of image 1 is beyond"),
        ({"data": [[1]]}, "needed is an array 'data'"),
        ({"data": np.zeros((2, 4, 4, 3))}, "data is float64"),
        ({"data": np.zeros((2, 0, 4, 3), np.uint8)}, "holds no images"),
        ({"names": {0: 7}}, "a class is named a int"),
        ({"catname2label": {"oak": [0]}}, "a class has the id"),
        ({"labels": None, "class_dict": {"oak": 3}}, "needed is a list"),
        ({"labels": None, "class_dict": {"oak": [0, None]}}, "needed are numbers of images"),
        ({"labels": None, "class_dict": {"oak": [0, 9]}}, "image 9 of 2"),
    ],
)
def test_the_shape_of_what_a_pickle_holds_is_checked(tmp_path, grey_images, change, said):
    content = {"data": grey_images([1, 2]), "labels": [0, 1]} | change
    write(tmp_path / "FC100_val.pickle", {name: value for name, value in content.items() if value is not None})
    with pytest.raises(DataError, match=said):
        read_dataset(tmp_path, "val")
