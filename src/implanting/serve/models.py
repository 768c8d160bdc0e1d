"""Every request and answer of the API, as OpenAPI shows them."""

from typing import Annotated

from fastapi import Path
from pydantic import BaseModel, Field

MOST = 2**53 - 1
"""The largest number that JSON has without loss."""

Id = Annotated[int, Path(ge=1, le=MOST)]
Number = Annotated[int, Field(ge=1, le=MOST)]
Name = Annotated[str, Field(min_length=1, max_length=200, examples=["oak"])]


class Problem(BaseModel):
    """An error: one sentence that says what is wrong and how to fix it."""

    message: str


class Named(BaseModel):
    """The name of a project or class."""

    name: Name


class NewClass(Named):
    """The name of a class that is to be made."""

    group: str | None = Field(
        default=None, max_length=64, description="Classes and photos of one group are undone together."
    )


class Cover(BaseModel):
    """A photo that stands for its project."""

    id: int
    key: str


class ProjectRow(BaseModel):
    """A project in the list."""

    id: int
    name: str
    classes: int
    photos: int
    cover: list[Cover] = Field(description="Up to four photos to show, of different classes.")
    changed: float = Field(description="Seconds since 1970.")
    removed: bool


class Class(BaseModel):
    """A class of a project."""

    id: int
    name: str


class Photo(BaseModel):
    """A photo; without a class it has no label yet."""

    id: int
    key: str = Field(description="With it, the address of a picture is unlike all others, and a browser may keep it.")
    name: str
    class_id: int | None
    width: int
    height: int
    removed: bool = Field(default=False, description="Whether it was removed after the revision given by `since`.")


class Learning(BaseModel):
    """Progress of the learning."""

    busy: bool
    read: int = Field(description="Number of photos that the network has read.")
    unread: int = Field(description="Number of photos that it still has to read.")
    revision: int | None = Field(description="The revision that was learned last; null if nothing can be learned yet.")
    classifier: str | None = Field(
        description="The key of the classifier; another one, even of one revision, has another."
    )


class State(BaseModel):
    """A project: all of it, or what has changed since a revision."""

    id: int
    name: str
    revision: int
    classes: list[Class]
    photos: list[Photo]
    undo: str | None = Field(description="The change that `undo` would take back.")
    redo: str | None = Field(description="The change that `redo` would make again.")
    learning: Learning


class Added(BaseModel):
    """A photo that was accepted."""

    id: int
    new: bool = Field(description="False if the project has an identical file already, which then stays as it is.")


class Refused(BaseModel):
    """A photo that was not accepted."""

    name: str
    message: str


class Uploaded(BaseModel):
    """Photos that are saved now, and those that were not accepted."""

    added: list[Added]
    refused: list[Refused]
    revision: int


class Move(BaseModel):
    """Photos to put into a class; null takes their label away."""

    photos: list[Number] = Field(min_length=1, max_length=100_000)
    class_id: Number | None


class Chosen(BaseModel):
    """Photos chosen for a change."""

    photos: list[Number] = Field(min_length=1, max_length=100_000)


class Done(BaseModel):
    """A change that is saved now."""

    revision: int
    about: str = ""
    id: int | None = Field(default=None, description="The number of what was created.")


class Probability(BaseModel):
    """One class of an answer."""

    class_id: int
    name: str
    probability: float


class Example(BaseModel):
    """An example that is similar to a photo."""

    photo: int
    similarity: float = Field(description="Cosine, at most 1.")


class Answer(BaseModel):
    """The answer for a photo."""

    name: str
    answer: str = Field(description="A class, or `none of these`.")
    none_of_these: bool
    probabilities: list[Probability] = Field(
        description="All classes, the likeliest first; the probabilities add up to 1."
    )
    nearest: list[Example]
    left_out: Probability | None = Field(
        default=None, description="For an example: the answer of a classifier that was fitted without it."
    )


class Answers(BaseModel):
    """Answers of the classifier learned at a revision."""

    revision: int
    answers: list[Answer]
    refused: list[Refused]


class Brief(BaseModel):
    """A short answer for an unlabelled photo of the project."""

    photo: int
    class_id: int = Field(description="The likeliest class.")
    probability: float
    none_of_these: bool
    uncertainty: float = Field(description="From 0, certain, to 1, a tie of two classes.")


class Unlabelled(BaseModel):
    """Answers for all unlabelled photos that were read."""

    revision: int
    answers: list[Brief]
    next: list[int] = Field(description="The photos to label next: uncertain ones that are unlike each other.")


class ShareRight(BaseModel):
    """Right answers among photos that were left out, with Wilson's 95 % interval."""

    class_id: int | None
    right: int
    total: int
    low: float
    high: float


class Cell(BaseModel):
    """A cell of the confusion matrix, with its photos."""

    truth: int
    answer: int
    photos: list[int]


class Suspect(BaseModel):
    """A photo that looks like another class than its own."""

    photo: int
    class_id: int
    looks_like: int
    probability: float


class Alike(BaseModel):
    """Photos that are nearly the same."""

    photos: list[int]
    similarity: float
    across: bool = Field(description="Whether they are in two classes or more, which no classifier can learn.")


class Advice(BaseModel):
    """One plain sentence, and the class that it is about."""

    text: str
    class_id: int | None


class Figures(BaseModel):
    """Figures from cross-fitted answers: each photo was answered by a classifier that was fitted without it."""

    revision: int
    accuracy: ShareRight
    per_class: list[ShareRight]
    confusion: list[Cell]
    mislabelled: list[Suspect]
    duplicates: list[Alike]
    advice: list[Advice]


class Exported(BaseModel):
    """A file that is ready, and how far it agrees with the page on the project's own photos."""

    file: str
    bytes: int
    photos: int
    same_answers: int
    largest_difference: float = Field(description="The largest difference of a probability.")


class FileProbability(BaseModel):
    """One class of an answer of a classifier file."""

    name: str
    probability: float


class FileAnswer(BaseModel):
    """The answer of a classifier file for a photo."""

    name: str
    answer: str
    probabilities: list[FileProbability]


class FileAnswers(BaseModel):
    """The answers of a classifier file."""

    answers: list[FileAnswer]
    refused: list[Refused]


class About(BaseModel):
    """Facts about the service."""

    version: str
    network: str
    most_bytes: int
    most_images: int
