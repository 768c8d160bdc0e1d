"""The routes under /api: projects, classes, photos and changes. Every change is on disk when it is answered."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import FileResponse, Response

from implanting.errors import DataError, ImageError
from implanting.serve.guard import Limits
from implanting.serve.learner import Learner, picture_path
from implanting.serve.models import (
    MOST,
    About,
    Added,
    Chosen,
    Class,
    Cover,
    Done,
    Id,
    Learning,
    Move,
    Named,
    NewClass,
    Photo,
    Problem,
    ProjectRow,
    Refused,
    State,
    Uploaded,
)
from implanting.serve.naming import LONGEST_NAME, seemly
from implanting.serve.pictures import Picture, accept
from implanting.serve.problems import Missing
from implanting.serve.samples import sample_photos
from implanting.serve.store import Store
from implanting.version import __version__

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read."},
    404: {"model": Problem, "description": "There is no such project, class, photo or file."},
    409: {"model": Problem, "description": "The request does not fit the present state of the project."},
    413: {"model": Problem, "description": "The request is too large."},
    422: {"model": Problem, "description": "The request is not of the right form, or a photo does not decode."},
    429: {"model": Problem, "description": "Too many requests at once."},
    503: {"model": Problem, "description": "The service is being stopped."},
    507: {"model": Problem, "description": "The disk is full; nothing was changed."},
}

FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
"""For addresses with a key that is random. Numbers of photos and revisions are the same in every data folder."""

NEVER = {"cache-control": "no-store"}

KEY = 16
"""Letters of a key; a photo's are the first of the random name of its file."""

Key = Annotated[str, Query(max_length=64, description="The photo's key; with it, the browser may keep the picture.")]

PHOTO_BYTES = 40 * 2**20
"""Largest size of one photo."""


def routes(store: Store, learner: Learner, limits: Limits) -> APIRouter:
    """The routes that show and change projects."""
    router = APIRouter(prefix="/api", responses=PROBLEMS)

    def done(project: int, about: str = "", made: int | None = None) -> Done:
        learner.changed(project)
        return Done(revision=store.project(project)["revision"], about=about, id=made)

    @router.get("/about", tags=["service"])
    def about() -> About:
        """Return the version, the base network and the limits."""
        return About(version=__version__, network=learner.base.name, most_bytes=limits.bytes, most_images=limits.images)

    @router.get("/projects", tags=["projects"])
    def list_projects() -> list[ProjectRow]:
        """List all projects, the most recently changed first; removed ones are listed until they are deleted."""
        return [_project_row(row) for row in store.projects()]

    @router.post("/projects", status_code=201, tags=["projects"])
    def make_project(named: Named) -> Done:
        """Create an empty project."""
        made = store.add_project(named.name)
        return done(made, made=made)

    @router.post("/projects/sample", status_code=201, tags=["projects"])
    def make_sample() -> Done:
        """Create a project with a few sample photos."""
        made = store.add_project("Sample")
        pixels = {}
        for name, photos in sample_photos().items():
            number = store.add_class(made, name) if name else None
            pictures = [accept(content, title, learner.side) for title, content in photos]
            for (photo, _), picture in zip(store.add_photos(made, number, pictures), pictures, strict=True):
                pixels[photo] = picture.pixels
        learner.changed(made, pixels)
        return done(made, made=made)

    @router.get("/projects/{project}", tags=["projects"])
    def show_project(project: Id, since: Annotated[int, Query(ge=0, le=MOST)] = 0) -> State:
        """Return a project with its classes and photos; with `since`, only photos changed after that revision."""
        state = store.state(project, since)
        read, unread, fitted = learner.progress(project)
        revision = state["project"]["revision"]
        return State(
            id=project,
            name=state["project"]["name"],
            revision=revision,
            classes=[Class(id=row["id"], name=row["name"]) for row in state["classes"]],
            photos=[_photo(row) for row in state["photos"]],
            undo=state["undo"],
            redo=state["redo"],
            learning=Learning(
                busy=learner.busy(project, revision),
                read=read,
                unread=unread,
                revision=fitted.revision if fitted else None,
                classifier=fitted.key if fitted else None,
            ),
        )

    @router.patch("/projects/{project}", tags=["projects"])
    def rename_project(project: Id, named: Named) -> Done:
        """Rename a project."""
        store.rename_project(project, named.name)
        return done(project)

    @router.delete("/projects/{project}", tags=["projects"])
    def remove_project(project: Id) -> Done:
        """Remove a project from the list; it can be restored, or deleted permanently."""
        revision = store.project(project)["revision"]
        store.remove_project(project)
        learner.forget(project)
        return Done(revision=revision + 1)

    @router.post("/projects/{project}/restore", tags=["projects"])
    def restore_project(project: Id) -> Done:
        """Put a removed project back into the list."""
        store.restore_project(project)
        return done(project)

    @router.delete("/projects/{project}/for-good", tags=["projects"])
    def delete_project(project: Id) -> Done:
        """Delete a removed project with all its photos and exported files. This cannot be undone."""
        store.delete_project(project)
        learner.forget(project)
        return Done(revision=0)

    @router.post("/projects/{project}/classes", status_code=201, tags=["classes"])
    def make_class(project: Id, named: NewClass) -> Done:
        """Create a class without photos."""
        made = store.add_class(project, named.name, named.group)
        return done(project, f"new class {named.name}", made)

    @router.patch("/projects/{project}/classes/{number}", tags=["classes"])
    def rename_class(project: Id, number: Id, named: Named) -> Done:
        """Rename a class."""
        store.rename_class(project, number, named.name)
        return done(project)

    @router.delete("/projects/{project}/classes/{number}", tags=["classes"])
    def remove_class(project: Id, number: Id) -> Done:
        """Remove a class with its photos; undo brings them back."""
        store.remove_class(project, number)
        return done(project)

    @router.post("/projects/{project}/photos", status_code=201, tags=["photos"])
    def add_photos(
        project: Id,
        files: Annotated[list[UploadFile], File(description="Photos in any format that Pillow reads.")],
        class_id: Annotated[
            int | None, Form(ge=1, le=MOST, description="Their class; without it they have no label yet.")
        ] = None,
        group: Annotated[
            str | None, Form(max_length=64, description="Uploads of one group are undone together.")
        ] = None,
    ) -> Uploaded:
        """Add photos. Before this is answered, they are decoded, encoded again without metadata and saved."""
        store.project(project)
        taken, refused = receive(files, learner.side, limits)
        added: list[tuple[int, bool]] = []
        if taken:
            added = store.add_photos(project, class_id, taken, group)
            new = {photo: picture.pixels for (photo, new), picture in zip(added, taken, strict=True) if new}
            learner.changed(project, new)
        elif refused:
            raise ImageError(refused[0].message)
        return Uploaded(
            added=[Added(id=photo, new=new) for photo, new in added],
            refused=refused,
            revision=store.project(project)["revision"],
        )

    @router.get("/projects/{project}/photos/{photo}", tags=["photos"])
    def show_photo(project: Id, photo: Id) -> Photo:
        """Return one photo."""
        return _photo(store.photo(project, photo))

    @router.get("/projects/{project}/photos/{photo}/picture", tags=["photos"], response_class=FileResponse)
    def picture(project: Id, photo: Id, key: Key = "") -> FileResponse:
        """Return the picture as it is kept: at most 1024 pixels wide or high, without metadata."""
        headers = _caching(store.photo(project, photo), key)
        return FileResponse(picture_path(store, project, photo), headers=headers)

    @router.get("/projects/{project}/photos/{photo}/thumbnail", tags=["photos"], response_class=Response)
    def thumbnail(project: Id, photo: Id, key: Key = "") -> Response:
        """Return a small square of the picture."""
        row = store.photo(project, photo)
        return Response(store.thumbnail_of(row), media_type="image/jpeg", headers=_caching(row, key))

    @router.post("/projects/{project}/photos/move", tags=["photos"])
    def move_photos(project: Id, move: Move) -> Done:
        """Put photos into a class, or take their labels away."""
        store.move_photos(project, move.photos, move.class_id)
        return done(project)

    @router.post("/projects/{project}/photos/remove", tags=["photos"])
    def remove_photos(project: Id, chosen: Chosen) -> Done:
        """Remove photos; undo brings them back."""
        store.remove_photos(project, chosen.photos)
        return done(project)

    @router.post("/projects/{project}/undo", tags=["changes"])
    def undo(project: Id) -> Done:
        """Undo the latest change."""
        return done(project, store.undo(project))

    @router.post("/projects/{project}/redo", tags=["changes"])
    def redo(project: Id) -> Done:
        """Redo the change that was undone last."""
        return done(project, store.redo(project))

    return router


def receive(files: list[UploadFile], side: int, limits: Limits) -> tuple[list[Picture], list[Refused]]:
    """Return the photos that can be decoded, and for the others the reason."""
    if len(files) > limits.images:
        raise DataError(f"{len(files)} photos were sent at once; at most {limits.images} are accepted: send fewer")
    taken, refused = [], []
    for upload in files:
        name = shown_name(upload.filename)
        try:
            taken.append(accept(content_of(upload), name, side))
        except ImageError as error:
            refused.append(Refused(name=name, message=str(error)))
    return taken, refused


def content_of(upload: UploadFile) -> bytes:
    """The bytes of a photo; raise an error if they are too many."""
    content = upload.file.read(PHOTO_BYTES + 1)
    if len(content) > PHOTO_BYTES:
        name = shown_name(upload.filename)
        raise ImageError(f"{name!r} is too large, with more than {PHOTO_BYTES:,} bytes: save it smaller")
    return content


def surplus(files: Sequence[UploadFile], limits: Limits) -> list[Refused]:
    """The refusals of the photos beyond those that one request may ask about."""
    message = f"at most {limits.images} photos are accepted at once: send fewer"
    return [Refused(name=shown_name(one.filename), message=message) for one in files[limits.images :]]


def shown_name(name: str | None) -> str:
    """The name of a photo for people: the last part of the client's path, without control characters."""
    last = (name or "").replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(letter for letter in last if seemly(letter))[-LONGEST_NAME:].strip() or "photo"


def _project_row(row: dict[str, Any]) -> ProjectRow:
    found = [photo.split(":") for photo in (row["cover"] or "").split(",") if photo]
    cover = [Cover(id=int(photo), key=_key(file)) for photo, file in found]
    return ProjectRow(**{**row, "removed": bool(row["removed"]), "cover": cover})


def _key(file: str) -> str:
    return file[:KEY]


def _caching(row: dict[str, Any], key: str) -> dict[str, str]:
    """The headers of a picture: it is kept if the key is its own, and not given if it is that of another photo."""
    if key not in ("", _key(row["file"])):
        raise Missing(f"photo {row['id']} has another key than {key!r}: load the list again")
    return FOREVER if key else NEVER


def _photo(row: dict[str, Any]) -> Photo:
    values = {name: row[name] for name in ("id", "name", "width", "height")}
    return Photo(**values, key=_key(row["file"]), class_id=row["class"], removed=bool(row["removed"]))
