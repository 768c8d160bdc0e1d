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
    """An error, as one sentence that says how to mend it."""

    message: str


class Named(BaseModel):
    """A name to give."""

    name: Name


class ProjectRow(BaseModel):
    """A project in the list."""

    id: int
    name: str
    classes: int
    photos: int
    changed: float = Field(description="Seconds since 1970.")
    removed: bool


class Class(BaseModel):
    """A class of a project."""

    id: int
    name: str


class Photo(BaseModel):
    """A photo; one without a class waits for its label."""

    id: int
    name: str
    class_id: int | None
    width: int
    height: int
    removed: bool = Field(default=False, description="It was removed after the revision that was asked for.")


class Learning(BaseModel):
    """Progress of the learning."""

    busy: bool
    read: int = Field(description="Photos that the network has looked at.")
    unread: int = Field(description="Photos that it still has to look at.")
    revision: int | None = Field(description="The revision that was learned last; null where nothing can be learned.")


class State(BaseModel):
    """A project: everything, or what changed since a revision."""

    id: int
    name: str
    revision: int
    classes: list[Class]
    photos: list[Photo]
    undo: str | None = Field(description="What `undo` would take back.")
    redo: str | None = Field(description="What `redo` would make again.")
    learning: Learning


class Added(BaseModel):
    """A photo that was taken."""

    id: int
    new: bool = Field(description="False where the project has this very photo already; it stays where it is.")


class Refused(BaseModel):
    """A photo that was not taken."""

    name: str
    message: str


class Uploaded(BaseModel):
    """Photos that are on disk now, and those that were not taken."""

    added: list[Added]
    refused: list[Refused]
    revision: int


class Move(BaseModel):
    """Photos to put into a class; null takes their label away."""

    photos: list[Number] = Field(min_length=1, max_length=100_000)
    class_id: Number | None


class Chosen(BaseModel):
    """Photos to do something with."""

    photos: list[Number] = Field(min_length=1, max_length=100_000)


class Done(BaseModel):
    """A change that is on disk now."""

    revision: int
    about: str = ""
    id: int | None = Field(default=None, description="Of what was made.")


class Probability(BaseModel):
    """One class of an answer."""

    class_id: int
    name: str
    probability: float


class Example(BaseModel):
    """An example that is like the photo asked about."""

    photo: int
    similarity: float = Field(description="Cosine, at most 1.")


class Answer(BaseModel):
    """The answer for a photo."""

    name: str
    answer: str = Field(description="A class, or `none of these`.")
    none_of_these: bool
    probabilities: list[Probability] = Field(description="Of all classes, the likeliest first; they add up to 1.")
    nearest: list[Example]


class Answers(BaseModel):
    """Answers by what was learned at a revision."""

    revision: int
    answers: list[Answer]
    refused: list[Refused]


class Brief(BaseModel):
    """The answer for an unlabelled photo of the project, briefly."""

    photo: int
    class_id: int = Field(description="The likeliest class.")
    probability: float
    none_of_these: bool
    uncertainty: float = Field(description="From 0, certain, to 1, a tie of two classes.")


class Unlabelled(BaseModel):
    """Answers for all unlabelled photos that were read."""

    revision: int
    answers: list[Brief]
    next: list[int] = Field(description="What to label next: uncertain, and unlike each other.")


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
    across: bool = Field(description="They are of two classes or more, which nothing can learn.")


class Advice(BaseModel):
    """One plain sentence, and what it is about."""

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
    largest_difference: float = Field(description="Of a probability.")


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
    """The service."""

    version: str
    network: str
    most_bytes: int
    most_images: int
