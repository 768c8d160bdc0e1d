from pathlib import Path

import pytest

from implanting.errors import ConfigError, DataError
from implanting.serve.naming import named
from implanting.serve.pictures import Picture, accept
from implanting.serve.problems import Conflict, Missing
from implanting.serve.store import Store
from service import photo


@pytest.fixture
def store(tmp_path: Path):
    store = Store(tmp_path / "data")
    yield store
    store.close()


def pictures(*seeds: int) -> list[Picture]:
    return [accept(photo(seed=seed), f"{seed}.jpg", 16) for seed in seeds]


def labels(store: Store, project: int) -> dict[int, int | None]:
    return dict(store.examples(project))


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    project = store.add_project("trees")
    oak = store.add_class(project, "oak 🌳")
    (first, new), (second, _) = store.add_photos(project, oak, pictures(1, 2))
    store.move_photos(project, [second], None)
    store.keep_readings("network", {first: b"reading"})
    before = store.state(project)
    store.close()
    again = Store(tmp_path)
    assert new
    assert again.state(project) == before
    assert labels(again, project) == {first: oak, second: None}
    assert again.readings(project, "network") == {first: b"reading"}
    assert again.file(again.photo(project, first)).read_bytes().startswith(b"\x89PNG")
    again.close()


def test_undo_goes_back_to_every_state_and_redo_forward(store: Store) -> None:
    project = store.add_project("trees")
    states = [store.state(project)]

    def kept() -> None:
        states.append(store.state(project))

    oak, elm = store.add_class(project, "oak"), None
    kept()
    photos = [number for number, _ in store.add_photos(project, oak, pictures(1, 2, 3))]
    kept()
    elm = store.add_class(project, "elm")
    kept()
    store.move_photos(project, photos[:2], elm)
    kept()
    store.rename_class(project, elm, "ash")
    kept()
    store.remove_photos(project, photos[1:])
    kept()
    store.remove_class(project, elm)
    kept()
    for expected in reversed(states[:-1]):
        store.undo(project)
        assert essence(store.state(project)) == essence(expected)
    with pytest.raises(Conflict, match="nothing to undo"):
        store.undo(project)
    for expected in states[1:]:
        store.redo(project)
        assert essence(store.state(project)) == essence(expected)
    with pytest.raises(Conflict, match="nothing to redo"):
        store.redo(project)


def essence(state: dict) -> tuple:
    classes = [(row["id"], row["name"]) for row in state["classes"]]
    return classes, [(row["id"], row["class"]) for row in state["photos"]]


def test_a_change_after_undo_ends_redo(store: Store) -> None:
    project = store.add_project("trees")
    store.add_class(project, "oak")
    store.undo(project)
    store.add_class(project, "elm")
    with pytest.raises(Conflict, match="nothing to redo"):
        store.redo(project)
    assert [row["name"] for row in store.classes(project)] == ["elm"]


def test_uploads_of_one_group_are_undone_at_once(store: Store) -> None:
    project = store.add_project("trees")
    store.add_photos(project, None, pictures(0))
    for seed in (1, 2, 3):
        store.add_photos(project, None, pictures(seed), group="a folder")
    store.undo(project)
    assert len(labels(store, project)) == 1
    store.redo(project)
    assert len(labels(store, project)) == 4


def test_a_folder_is_undone_with_the_class_of_its_name(store: Store) -> None:
    project = store.add_project("trees")
    oak = store.add_class(project, "oak", group="a folder")
    store.add_photos(project, oak, pictures(1), group="a folder")
    store.undo(project)
    assert not store.classes(project)
    assert not labels(store, project)
    store.redo(project)
    assert list(labels(store, project).values()) == [oak]


def test_a_project_is_shown_by_photos_of_different_classes(store: Store) -> None:
    project = store.add_project("trees")
    assert store.projects()[0]["cover"] is None
    oak, elm = store.add_class(project, "oak"), store.add_class(project, "elm")
    unlabelled, _, first_elm, first_oak = (
        store.add_photos(project, *given)[0][0]
        for given in ((None, pictures(0)), (None, pictures(1)), (elm, pictures(2)), (oak, pictures(3, 4)))
    )
    shown = [store.photo(project, photo) for photo in (first_oak, first_elm, unlabelled)]
    assert store.projects()[0]["cover"] == ",".join(f"{row['id']}:{row['file']}" for row in shown)


def test_what_changed_since_a_revision_is_all_that_a_page_needs(store: Store) -> None:
    project = store.add_project("trees")
    oak = store.add_class(project, "oak")
    photos = [number for number, _ in store.add_photos(project, oak, pictures(1, 2, 3))]
    before = store.project(project)["revision"]
    store.move_photos(project, photos[:1], None)
    store.remove_photos(project, photos[2:])
    changed = store.state(project, before)["photos"]
    assert [(row["id"], row["class"], row["removed"]) for row in changed] == [(photos[0], None, 0), (photos[2], oak, 1)]
    assert [row["id"] for row in store.state(project)["photos"]] == photos[:2]


def test_the_same_bytes_are_kept_once_and_leave_no_file(store: Store) -> None:
    project = store.add_project("trees")
    [(first, _)] = store.add_photos(project, None, pictures(1))
    assert store.add_photos(project, None, pictures(1)) == [(first, False)]
    assert len(list(store.files.pictures.glob("*/*"))) == 1
    store.remove_photos(project, [first])
    [(again, new)] = store.add_photos(project, None, pictures(1))
    assert new
    assert again != first


def test_a_failed_change_leaves_nothing_behind(store: Store) -> None:
    project = store.add_project("trees")
    photos = [number for number, _ in store.add_photos(project, None, pictures(1, 2))]
    before = store.state(project)
    with pytest.raises(Missing, match="no photo 99"):
        store.remove_photos(project, [*photos, 99])
    with pytest.raises(Missing, match="no class 7"):
        store.move_photos(project, photos, 7)
    assert store.state(project) == before


def test_files_without_a_record_are_swept_away_at_the_next_start(store: Store, tmp_path: Path) -> None:
    project = store.add_project("trees")
    [(number, _)] = store.add_photos(project, None, pictures(1))
    orphan = store.files.picture(store.files.write(pictures(2)[0]))
    kept = store.file(store.photo(project, number))
    store.close()
    again = Store(store.folder)
    assert kept.exists()
    assert not orphan.exists()
    again.close()


def test_a_second_server_on_the_same_data_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="in use by another server"):
        Store(store.folder)


def test_another_file_in_the_place_of_the_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "projects.sqlite").write_text("no database at all, but long enough to look at" * 100)
    with pytest.raises(ConfigError, match="is not a database of this program"):
        Store(tmp_path)


def test_a_project_is_removed_restored_and_deleted_for_good(store: Store) -> None:
    project, other = store.add_project("trees"), store.add_project("birds")
    store.add_photos(project, None, pictures(1))
    store.add_photos(other, None, pictures(2))
    with pytest.raises(Missing, match="no removed project"):
        store.delete_project(project)
    store.remove_project(project)
    with pytest.raises(Missing, match=f"no project {project}"):
        store.state(project)
    store.restore_project(project)
    assert store.state(project)["project"]["name"] == "trees"
    store.remove_project(project)
    store.delete_project(project)
    assert [row["id"] for row in store.projects()] == [other]
    assert len(list(store.files.pictures.glob("*/*"))) == len(list(store.files.thumbnails.glob("*/*"))) == 1


def test_a_photo_that_was_deleted_while_it_was_read_leaves_no_reading(store: Store) -> None:
    project = store.add_project("trees")
    [(photo, _)] = store.add_photos(project, None, pictures(1))
    store.remove_project(project)
    store.delete_project(project)
    store.keep_readings("network", {photo: b"reading"})
    assert store._database.rows("SELECT * FROM readings") == []


def test_exports_of_deleted_projects_are_swept_at_the_start(tmp_path: Path) -> None:
    store = Store(tmp_path)
    project = store.add_project("trees")
    for number in (project, project + 1):
        store.exports(number).mkdir(parents=True)
        (store.exports(number) / "classifier.onnx").write_bytes(b"graph")
    store.close()
    again = Store(tmp_path)
    assert list(tmp_path.glob("exports/*/*")) == [again.exports(project) / "classifier.onnx"]
    again.close()


def test_a_lost_thumbnail_is_made_again(store: Store) -> None:
    project = store.add_project("trees")
    [(number, _)] = store.add_photos(project, None, pictures(1))
    row = store.photo(project, number)
    store.files.thumbnail(row["file"]).unlink()
    assert store.thumbnail_of(row).startswith(b"\xff\xd8")
    assert store.files.thumbnail(row["file"]).exists()


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0b", "\ud800", "x" * 201])
def test_names_that_cannot_be_shown_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"the name of a class has .* characters"):
        named(name, "class")


@pytest.mark.parametrize("name", ["../../etc/passwd", "<b>\"quotes'</b>", "👨\N{ZERO WIDTH JOINER}👩", "ёж"])
def test_any_other_name_is_kept_as_it_is(name: str, store: Store) -> None:
    project = store.add_project(name)
    store.add_class(project, name)
    assert store.project(project)["name"] == store.classes(project)[0]["name"] == name


def test_the_answer_for_strangers_is_no_name_of_a_class(store: Store) -> None:
    with pytest.raises(Conflict, match="'none of these' is the answer for photos that fit no class"):
        store.add_class(store.add_project("trees"), " none of these ")


def test_a_class_name_is_there_once(store: Store) -> None:
    project = store.add_project("trees")
    store.add_class(project, "oak")
    elm = store.add_class(project, "elm")
    with pytest.raises(Conflict, match="a class 'oak' already"):
        store.rename_class(project, elm, " oak ")
