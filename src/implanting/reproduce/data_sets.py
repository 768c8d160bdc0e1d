"""Which of the paper's data sets this is, if it is one."""

from implanting.datasets import ImageSet, read_class_lists
from implanting.reproduce.tables import DataName

BASE_CLASSES: dict[DataName, int] = {"miniImageNet": 64, "FC100": 60}
IMAGES_A_CLASS = 600


def paper_data(images: ImageSet) -> DataName | None:
    """The data set that a split belongs to, by its name or its classes."""
    for name in BASE_CLASSES:
        listed = {label for classes in read_class_lists(name.lower()).values() for label in classes}
        if images.name.startswith(f"{name} ") or set(images.class_names) <= listed:
            return name
    return None


def why_not_the_papers(table_data: DataName, base_images: ImageSet, novel: ImageSet, split: str) -> str | None:
    """What makes figures on this data others than the paper's, if anything does."""
    found = paper_data(base_images)
    if found != table_data:
        return f"the paper's table is of {table_data}, and this is {found or base_images.name}"
    classes, needed = len(base_images.class_names), BASE_CLASSES[table_data]
    if classes != needed:
        return f"{table_data} has {needed} base classes, and here are {classes}"
    smallest = min(base_images.smallest_class, novel.smallest_class)
    if smallest < IMAGES_A_CLASS:
        return f"{table_data} has {IMAGES_A_CLASS} images a class, and here a class has {smallest}"
    if split != "test":
        return f"the paper's figures are of {table_data}'s test classes, and these are the classes of its split {split}"
    return None
