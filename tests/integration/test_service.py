"""The HTTP API as programs use it: the whole way, wrong input, and nothing lost whatever happens."""

import csv
import io
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from PIL import Image

from commands import ENVIRONMENT, implanting
from implanting.base import BaseNetwork
from implanting.classifier import ImageClassifier
from implanting.serve.guard import Limits
from implanting.serve.learner import Learner
from implanting.serve.reader import Reader
from implanting.serve.running import _own_ip_address
from service import COLOURS, Client, photo, photos_of, serving


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, base: BaseNetwork):
    with serving(tmp_path_factory.mktemp("data"), base) as client:
        yield client


def taught(client: Client, count: int = 4) -> tuple[int, dict[str, int]]:
    """A project of three colours."""
    project = client("POST", "/projects", json={"name": "colours"})["id"]
    classes = {}
    for name in COLOURS:
        classes[name] = client("POST", f"/projects/{project}/classes", json={"name": name})["id"]
        client.add(project, photos_of(name, count), classes[name])
    return project, classes


def test_the_whole_way(client: Client, tmp_path: Path) -> None:
    project, classes = taught(client)
    state = client.learned(project)
    assert len(state["photos"]) == 12
    assert state["learning"]["revision"] == state["revision"]

    asked = photos_of("green", 1, start=50)
    [answer] = client("POST", f"/projects/{project}/predict", files=[("files", one) for one in asked.items()])[
        "answers"
    ]
    assert answer["answer"] == answer["probabilities"][0]["name"] == "green"
    assert sum(one["probability"] for one in answer["probabilities"]) == pytest.approx(1)
    nearest = {row["id"]: row["class_id"] for row in state["photos"]}[answer["nearest"][0]["photo"]]
    assert nearest == classes["green"]

    [added] = client.add(project, asked)["added"]
    kept = client("GET", f"/projects/{project}/photos/{added['id']}/answer")
    assert kept["probabilities"] == answer["probabilities"]
    heat = client("GET", f"/projects/{project}/photos/{added['id']}/heat-map?class_id={classes['green']}")
    assert heat.startswith(b"\x89PNG")
    answers = client("GET", f"/projects/{project}/answers")
    assert [one["photo"] for one in answers["answers"]] == answers["next"] == [added["id"]]
    [row] = csv.DictReader(io.StringIO(client("GET", f"/projects/{project}/answers.csv").decode("utf-8-sig")))
    assert (row["photo"], row["answer"]) == ("green 50.jpg", "green")

    figures = client("GET", f"/projects/{project}/figures")
    assert figures["accuracy"]["total"] == 12
    share = figures["accuracy"]["right"] / 12
    assert 0.6 < share <= 1
    assert figures["accuracy"]["low"] < share <= figures["accuracy"]["high"]

    exported = client("POST", f"/projects/{project}/exports/classifier")
    assert exported["same_answers"] == exported["photos"] == 12
    file = tmp_path / "classifier.safetensors"
    file.write_bytes(client("GET", f"/projects/{project}/exports/classifier.safetensors"))
    given = ImageClassifier.load(file).predict_proba([next(iter(asked.values()))])[0]
    page = {one["name"]: one["probability"] for one in answer["probabilities"]}
    np.testing.assert_allclose(given, [page[name] for name in sorted(COLOURS)], atol=1e-5)


def test_pictures_of_two_data_folders_are_never_kept_under_one_address(tmp_path: Path, base: BaseNetwork) -> None:
    """A browser keeps pictures by their addresses, and both folders have a photo 1 of project 1 on the same port."""
    seen: list[set[str]] = []
    for name in ("one", "other"):
        with serving(tmp_path / name, base) as client:
            project, classes = taught(client, count=2)
            state = client.learned(project)
            row, [listed] = state["photos"][0], client("GET", "/projects")
            assert {"id": row["id"], "key": row["key"]} in listed["cover"]
            assert len(listed["cover"]) == 3
            path, query = f"/projects/{project}/photos/{row['id']}", f"key={row['key']}"
            heat = f"class_id={classes['red']}"
            addresses = {
                f"{path}/thumbnail?{query}",
                f"{path}/picture?{query}",
                f"{path}/heat-map?{heat}&classifier={state['learning']['classifier']}",
            }
            assert all("immutable" in caching(client, address) for address in addresses)
            for address in (f"{path}/thumbnail", f"{path}/picture", f"{path}/heat-map?{heat}&classifier=earlier"):
                assert caching(client, address) == "no-store"
            for kind in ("thumbnail", "picture"):
                assert "another key" in client("GET", f"{path}/{kind}?key=another", 404)["message"]
            seen.append(addresses)
    assert not seen[0] & seen[1]


def caching(client: Client, path: str) -> str:
    answer = client.session.get(f"{client.url}/api{path}", timeout=60)
    assert answer.ok, answer.text
    return answer.headers["cache-control"]


def test_onnx_is_given_only_after_it_answered_as_the_page(client: Client) -> None:
    project, _ = taught(client, count=2)
    exported = client("POST", f"/projects/{project}/exports/onnx")
    assert exported["same_answers"] == exported["photos"] == 6
    assert exported["largest_difference"] < 1e-4
    assert len(client("GET", f"/projects/{project}/exports/classifier.onnx")) == exported["bytes"]


def test_nothing_is_left_of_a_project_that_is_deleted_for_good(
    tmp_path: Path, base: BaseNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exported classifier holds readings of the photos, so it goes with them, even if it is being exported."""
    with serving(tmp_path, base) as client:
        project, kept = (taught(client, count=2)[0] for _ in range(2))
        for one in (project, kept):
            client("POST", f"/projects/{one}/exports/classifier")
        client("DELETE", f"/projects/{project}")
        assert exports(tmp_path) == {project, kept}  # it may be restored
        client("DELETE", f"/projects/{project}/for-good")
        assert exports(tmp_path) == {kept}

        def ask(learner: Learner, pixels: list) -> list:
            client("DELETE", f"/projects/{kept}")
            client("DELETE", f"/projects/{kept}/for-good")
            return asked(learner, pixels)

        asked = Learner.ask
        monkeypatch.setattr(Learner, "ask", ask)
        other = Client(client.url)
        assert "no project" in other("POST", f"/projects/{kept}/exports/classifier", 404)["message"]
        other.session.close()
        assert exports(tmp_path) == set()


def exports(data: Path) -> set[int]:
    """The projects of which there is an exported file."""
    return {int(path.parent.name) for path in data.glob("exports/*/*")}


def test_a_copy_is_found_and_removed(client: Client) -> None:
    """Wrong labels need a base that sees more than the toy one: the test of the page has one."""
    project, classes = taught(client, count=3)
    again = io.BytesIO()
    Image.open(io.BytesIO(photo(COLOURS["green"], 0))).save(again, "JPEG", quality=60)
    [copy] = client.add(project, {"copy.jpg": again.getvalue()}, classes["green"])["added"]
    assert [one["photos"][1:] for one in client("GET", f"/projects/{project}/figures")["duplicates"]] == [[copy["id"]]]
    client("POST", f"/projects/{project}/photos/remove", json={"photos": [copy["id"]]})
    assert client("GET", f"/projects/{project}/figures")["duplicates"] == []
    client("POST", f"/projects/{project}/undo")
    assert len(client("GET", f"/projects/{project}/figures")["duplicates"]) == 1


def test_what_is_wrong_is_said_in_one_sentence(client: Client) -> None:
    project = client("POST", "/projects", json={"name": "x"})["id"]
    one = client("POST", f"/projects/{project}/classes", json={"name": "../<b>'\"🐘"})["id"]
    client.add(project, {"../../a.jpg": photo()}, one)
    assert client("GET", f"/projects/{project}/photos/{client.learned(project)['photos'][0]['id']}")["name"] == "a.jpg"
    half = {"data": b'{"name": "\\ud800"}', "headers": {"content-type": "application/json"}}
    for method, path, status, message, request in [
        ("POST", f"/projects/{project}/predict", 409, "two classes or more", {"files": {"files": ("a.jpg", photo())}}),
        ("GET", f"/projects/{project}/figures", 409, "photos are of one class", {}),
        ("POST", f"/projects/{project}/exports/onnx", 409, "two classes or more", {}),
        ("GET", "/projects/99", 404, "no project 99", {}),
        ("POST", "/projects", 422, "name", {"json": {"name": ""}}),
        ("POST", "/projects", 422, "", half),
        ("POST", f"/projects/{project}/classes", 409, "already", {"json": {"name": "../<b>'\"🐘"}}),
        ("POST", f"/projects/{project}/redo", 409, "nothing to redo", {}),
    ]:
        answer = client(method, path, status, **request)
        assert message in answer["message"], answer
        assert "\n" not in answer["message"]
    bad = {"empty.jpg": b"", "text.jpg": b"hello", "half.png": photo(kind="PNG")[:200]}
    answer = client.add(project, {**bad, "good.jpg": photo(seed=5)}, one)
    assert len(answer["added"]) == 1
    assert [one["name"] for one in answer["refused"]] == list(bad)
    assert "it is empty" in client.add(project, {"empty.jpg": b""}, one, status=422)["message"]


def test_a_classifier_is_read_as_safetensors_only(client: Client) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", b"\0" * 2**24)
    answer = client(
        "POST",
        "/classifiers/ask",
        422,
        files=[("classifier", ("c.pt", bomb.getvalue())), ("files", ("a.jpg", photo()))],
    )
    assert "cannot be read as safetensors" in answer["message"]


def test_a_classifier_file_answers_as_its_project(client: Client) -> None:
    project, _ = taught(client, count=3)
    client("POST", f"/projects/{project}/exports/classifier")
    file = client("GET", f"/projects/{project}/exports/classifier.safetensors")
    question = ("files", ("a.jpg", photo(COLOURS["red"], 70)))
    asked = client("POST", f"/projects/{project}/predict", files=[question])["answers"][0]
    given = client("POST", "/classifiers/ask", files=[("classifier", ("c.safetensors", file)), question])["answers"][0]
    assert given["answer"] == asked["answer"]
    np.testing.assert_allclose(
        [one["probability"] for one in given["probabilities"]],
        [one["probability"] for one in asked["probabilities"]],
        atol=1e-5,
    )


def large(content: bytes) -> bytes:
    """A valid PNG of more than 40 MiB: a picture with a private chunk before its pixels."""
    filler = b"prIv" + bytes(41 * 2**20)
    chunk = struct.pack(">I", len(filler) - 4) + filler + struct.pack(">I", zlib.crc32(filler))
    end = 8 + 25  # of the signature and the header
    return content[:end] + chunk + content[end:]


def test_a_photo_that_is_too_large_is_not_called_damaged(client: Client) -> None:
    project, _ = taught(client, count=2)
    client("POST", f"/projects/{project}/exports/classifier")
    file = client("GET", f"/projects/{project}/exports/classifier.safetensors")
    classifier, small = ("classifier", ("c.safetensors", file)), ("files", ("small.jpg", photo()))
    too_large = ("files", ("large.png", large(photo(kind="PNG"))))
    for path, files in {f"/projects/{project}/predict": [], "/classifiers/ask": [classifier]}.items():
        answer = client("POST", path, files=[*files, too_large, small])
        assert [one["name"] for one in answer["answers"]] == ["small.jpg"]
        [refused] = answer["refused"]
        assert refused == {
            "name": "large.png",
            "message": client("POST", path, 422, files=[*files, too_large])["message"],
        }
        assert "too large, with more than 41,943,040 bytes" in refused["message"]
    assert "too large" in client("POST", f"/projects/{project}/photos", 422, files=[too_large])["message"]


def test_photos_beyond_the_limit_are_refused_by_name(tmp_path: Path, base: BaseNetwork) -> None:
    with serving(tmp_path, base, limits=Limits(images=2)) as client:
        project, _ = taught(client, count=2)
        client("POST", f"/projects/{project}/exports/classifier")
        file = client("GET", f"/projects/{project}/exports/classifier.safetensors")
        asked = [("files", (f"{number}.jpg", photo(seed=number))) for number in range(4)]
        for path, files in {f"/projects/{project}/predict": [], "/classifiers/ask": [("classifier", file)]}.items():
            answer = client("POST", path, files=[*files, *asked])
            assert [one["name"] for one in answer["answers"]] == ["0.jpg", "1.jpg"]
            assert [one["name"] for one in answer["refused"]] == ["2.jpg", "3.jpg"]
            assert "at most 2 photos" in answer["refused"][0]["message"]


def test_changes_at_once_are_all_made(client: Client) -> None:
    project, classes = taught(client, count=2)
    photos = [row["id"] for row in client.learned(project)["photos"]]

    def change(number: int) -> None:
        other = Client(client.url)
        if number % 2:
            other.add(project, {f"{number}.jpg": photo(seed=1000 + number)}, classes["red"])
        else:
            move = {"photos": photos[number // 2 : number // 2 + 1], "class_id": classes["blue"]}
            other("POST", f"/projects/{project}/photos/move", json=move)
        other.session.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(change, range(12)))
    state = client.learned(project)
    labels = {row["id"]: row["class_id"] for row in state["photos"]}
    assert len(labels) == 12
    assert all(labels[photo] == classes["blue"] for photo in photos)
    fitted = client("GET", f"/projects/{project}/figures")
    assert fitted["revision"] == state["revision"]


def test_a_client_that_leaves_half_way_harms_nobody(client: Client) -> None:
    project, _ = taught(client, count=2)
    before = client.learned(project)["revision"]
    host, port = client.url.removeprefix("http://").split(":")
    leaving = socket.create_connection((host, int(port)))
    head = f"POST /api/projects/{project}/photos HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 100000\r\n"
    leaving.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n".encode())
    leaving.close()
    assert client.learned(project)["revision"] == before
    client.add(project, {"later.jpg": photo(seed=99)})


def test_too_many_requests_are_told_to_come_again(tmp_path: Path, base: BaseNetwork) -> None:
    with serving(tmp_path, base, limits=Limits(requests=1)) as client:
        project, _ = taught(client, count=2)
        client.learned(project)

        def ask(number: int) -> int:
            files = {"files": ("a.jpg", photo(seed=number))}
            return requests.post(f"{client.url}/api/projects/{project}/predict", files=files, timeout=60).status_code

        with ThreadPoolExecutor(8) as threads:
            found = set(threads.map(ask, range(24)))
        assert found == {200, 429}


def test_a_question_that_is_cancelled_by_the_end_is_told_so(
    tmp_path: Path, base: BaseNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, base) as client:
        project, _ = taught(client, count=2)
        client.learned(project)
        given: Future = Future()
        given.cancel()
        monkeypatch.setattr(Reader, "submit", lambda *_: given)
        answer = client("POST", f"/projects/{project}/predict", 503, files={"files": ("a.jpg", photo())})
        assert "being stopped" in answer["message"]


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # schemathesis' own
def test_no_request_of_the_schema_is_answered_with_a_fault_of_ours(tmp_path: Path, base: BaseNetwork) -> None:
    """schemathesis makes valid and invalid requests of the service's own schema."""
    with serving(tmp_path, base) as client:
        taught(client, count=2)
        schema = schemathesis.openapi.from_url(f"{client.url}/openapi.json")
        seen = set()

        for operation in schema.exclude(path_regex="/exports/|/sample").get_all_operations():
            made = operation.ok().as_strategy()
            run_cases(made, client, seen)
        assert len(seen) > 20
        client("GET", "/projects")


def run_cases(strategy, client: Client, seen: set) -> None:
    @given(case=strategy)
    @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    def ask(case) -> None:
        answer = case.call(base_url=client.url, timeout=60)
        seen.add((case.method, case.path))
        assert answer.status_code < 500, (case.method, case.path, answer.text)
        if answer.status_code >= 400 and case.method != "HEAD":
            assert answer.json()["message"]

    ask()


CRASHING = """
import os, sys, signal
from pathlib import Path
import uvicorn
from implanting.base import load_base
from implanting.serve.app import make_app
base, data = load_base(sys.argv[1]), Path(sys.argv[2])
print("imported", flush=True)
for line in sys.stdin:  # each round in a fork: importing PyTorch twenty times would take minutes
    child = os.fork()
    if not child:
        server = uvicorn.Server(uvicorn.Config(make_app(data, base), port=int(line), log_level="error"))
        server.run()
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def test_nothing_acknowledged_is_lost_when_killed_amid_uploads_twenty_times(tmp_path: Path, base_file: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", CRASHING, str(base_file), str(tmp_path / "data")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    acknowledged: dict[int, int | None] = {}
    chance, checked = random.Random(0), 0
    try:
        assert parent.stdout.readline() == "imported\n"
        for number in range(20):
            port = free_port()
            parent.stdin.write(f"{port}\n")
            parent.stdin.flush()
            child = int(parent.stdout.readline())
            client = Client(f"http://127.0.0.1:{port}")
            wait_for(client)
            if not number:
                project = client("POST", "/projects", json={"name": "crash"})["id"]
                classes = [client("POST", f"/projects/{project}/classes", json={"name": name})["id"] for name in "ab"]
            photos = {row["id"]: row["class_id"] for row in client("GET", f"/projects/{project}")["photos"]}
            assert {one: photos[one] for one in acknowledged} == acknowledged
            for one in list(acknowledged)[checked:]:
                assert client("GET", f"/projects/{project}/photos/{one}/picture").startswith(b"\x89PNG")
            checked = len(acknowledged)
            enough, moment = len(acknowledged) + chance.randint(1, 3), chance.uniform(0, 0.05)
            upload_until_killed(client, project, classes, number, child, enough, moment, acknowledged)
            assert parent.stdout.readline() == "gone\n"
    finally:
        parent.stdin.close()
        parent.wait(20)
        parent.stdout.close()
    assert len(acknowledged) > 20


def wait_for(client: Client, status: int | None = None) -> None:
    for _ in range(400):
        try:
            client("GET", "/projects", status)
            return
        except requests.ConnectionError:
            time.sleep(0.02)
    raise AssertionError("the service does not answer")


def upload_until_killed(
    client: Client,
    project: int,
    classes: list[int],
    number: int,
    child: int,
    enough: int,
    moment: float,
    acknowledged: dict,
) -> None:
    """Kill the service some time after enough uploads were acknowledged, amid the next ones."""

    def send(worker: int) -> None:
        other = Client(client.url)
        for turn in range(1000):
            try:
                seed = 100_000 * number + 1000 * worker + turn
                [added] = other.add(project, {"a.jpg": photo(seed=seed, size=(24, 24))}, classes[worker])["added"]
                acknowledged[added["id"]] = classes[worker]
                if turn % 3 == 0:
                    move = {"photos": [added["id"]], "class_id": classes[1 - worker]}
                    acknowledged.pop(added["id"])  # until it is acknowledged, both labels are right
                    other("POST", f"/projects/{project}/photos/move", json=move)
                    acknowledged[added["id"]] = classes[1 - worker]
            except requests.RequestException:
                break
        other.session.close()

    with ThreadPoolExecutor(2) as threads:
        senders = [threads.submit(send, worker) for worker in range(2)]
        while len(acknowledged) < enough and not all(sender.done() for sender in senders):
            time.sleep(0.005)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        for sender in senders:
            sender.result()


def test_a_full_disk_is_said_and_the_service_goes_on(tmp_path: Path, base_file: Path) -> None:
    """A limit on the size of files stands for the disk: writing then fails with the same kind of error."""
    port, command = free_port(), [sys.executable, "-m", "implanting", "serve", "--no-open", "--base", str(base_file)]
    server = subprocess.Popen(
        [*command, "--port", str(port), "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        assert f":{port}/" in server.stdout.readline()
        client = Client(f"http://127.0.0.1:{port}")
        wait_for(client)
        project, classes = taught(client, count=2)
        before = client.learned(project)
        unlimited = resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        answer = client.add(project, {"late.jpg": photo(seed=77)}, classes["red"], status=507)
        assert "nothing was changed" in answer["message"]
        answer = client("POST", f"/projects/{project}/classes", 507, json={"name": "late"})
        assert "nothing was changed" in answer["message"]
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
        after = client.learned(project)
        assert (after["photos"], after["classes"]) == (before["photos"], before["classes"])
        client.add(project, {"late.jpg": photo(seed=77)}, classes["red"])
        refused = implanting(*command, "--data", str(tmp_path / "data"), "--port", "0", status=2)
        assert "is in use by another server" in refused.stderr
        assert "--data" in refused.stderr
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) in (0, 130)
        server.stdout.close()


def test_the_command_refuses_what_is_not_safe() -> None:
    command = (sys.executable, "-m", "implanting", "serve", "--no-open", "--host", "0.0.0.0")
    assert "needs a --token" in implanting(*command, status=2).stderr


def test_the_command_lets_other_machines_in_and_prints_their_address(tmp_path: Path, base_file: Path) -> None:
    port, token = free_port(), "abcdefghijkl123"
    command = [sys.executable, "-m", "implanting", "serve", "--no-open", "--base", str(base_file), "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--host", "0.0.0.0", "--token", token, "--data", str(tmp_path)],
        stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        first = server.stdout.readline()
        client = Client(f"http://127.0.0.1:{port}")
        wait_for(client, status=401)
        for host in (f"10.1.2.3:{port}", socket.gethostname().upper()):
            assert client("GET", "/projects", headers={"host": host, "authorization": f"Bearer {token}"}) == []
        client("GET", "/projects", 403, headers={"host": "evil.example", "authorization": f"Bearer {token}"})
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) in (0, 130)
        rest = server.stdout.read()
        server.stdout.close()
    assert first == f"serving at http://localhost:{port}/?token={token}\n"
    own = _own_ip_address(socket.AF_INET) or socket.gethostname()
    assert rest == f"for other machines at http://{own}:{port}/?token={token}\n"
