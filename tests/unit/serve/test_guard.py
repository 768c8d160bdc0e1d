import ipaddress
import socket
from pathlib import Path

import pytest
import requests

from implanting.base import BaseNetwork
from implanting.errors import ConfigError
from implanting.serve import address_of
from implanting.serve.guard import Limits
from implanting.serve.running import _own_ip_address
from service import Client, photo, serving

TOKEN = "abcdefghijkl123"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, base: BaseNetwork):
    with serving(tmp_path_factory.mktemp("data"), base, limits=Limits(bytes=200_000, images=3)) as client:
        yield client


def test_another_host_name_is_refused_as_dns_rebinding_would_use_one(client: Client) -> None:
    assert "'evil.example'" in client("GET", "/projects", 403, headers={"host": "evil.example"})["message"]
    client("GET", "/projects", headers={"host": "localhost:1"})


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://[evil"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_another_page_cannot_change_anything(client: Client, headers: dict[str, str]) -> None:
    assert "another web page" in client("POST", "/projects", 403, json={"name": "mine"}, headers=headers)["message"]
    assert client("GET", "/projects") == []


def test_our_own_page_can(client: Client) -> None:
    made = client("POST", "/projects", json={"name": "mine"}, headers={"origin": client.url})
    client("DELETE", f"/projects/{made['id']}")
    client("DELETE", f"/projects/{made['id']}/for-good")


def test_every_answer_forbids_scripts_from_elsewhere(client: Client) -> None:
    for path in ("/", "/docs", "/page/app.js", "/api/projects", "/api/projects/9", "/nothing"):
        headers = requests.get(client.url + path, timeout=10).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_a_body_is_bounded_whether_its_length_is_announced_or_not(client: Client) -> None:
    made = client("POST", "/projects", json={"name": "large"})["id"]
    too_large = b"x" * 300_000
    assert "at most 200,000" in client("POST", f"/projects/{made}/photos", 413, data=too_large)["message"]
    too_large = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n' + too_large
    chunks = (too_large[start : start + 10_000] for start in range(0, len(too_large), 10_000))
    headers = {"content-type": "multipart/form-data; boundary=x"}
    assert "at most 200,000" in client("POST", f"/projects/{made}/photos", 413, data=chunks, headers=headers)["message"]


def test_the_number_of_photos_is_bounded(client: Client) -> None:
    made = client("POST", "/projects", json={"name": "many"})["id"]
    answer = client.add(made, {f"{number}.jpg": photo(seed=number) for number in range(4)}, status=422)
    assert "at most 3 are accepted" in answer["message"]


def test_a_token_is_asked_for_and_a_browser_keeps_it_as_a_cookie(tmp_path: Path, base: BaseNetwork) -> None:
    with serving(tmp_path, base, token=TOKEN) as client:
        assert "a token is needed" in client("GET", "/projects", 401)["message"]
        assert requests.get(client.url, timeout=10).status_code == 401
        client("GET", "/projects", 401, headers={"authorization": "Bearer wrong"})
        client("GET", "/projects", headers={"authorization": f"Bearer {TOKEN}"})
        browser = requests.Session()
        opened = browser.get(f"{client.url}/?token={TOKEN}", timeout=10)
        assert opened.ok
        assert TOKEN not in opened.url
        assert "HttpOnly; SameSite=Strict" in opened.history[0].headers["set-cookie"]
        assert browser.get(f"{client.url}/api/projects", timeout=10).ok
        browser.close()


def test_a_service_that_listens_everywhere_answers_to_every_ip_address_and_its_own_name_only(
    tmp_path: Path, base: BaseNetwork
) -> None:
    with serving(tmp_path, base, hosts=("localhost", "My-Machine"), any_ip_address=True, token=TOKEN) as client:
        known = {"authorization": f"Bearer {TOKEN}"}
        for host in ("192.168.1.5", "192.168.1.5:8765", "[fe80::1]:8765", "My-Machine", "my-machine:1", "MY-MACHINE"):
            assert client("GET", "/projects", headers={**known, "host": host}) == []
        for host in ("evil.example", "192.168.1.5.evil.example", "1", ""):
            client("GET", "/projects", 403, headers={**known, "host": host})
        ours = {**known, "host": "192.168.1.5:8765"}
        client("GET", "/projects", 401, headers={"host": ours["host"]})
        for origin in ("http://192.168.1.6:8765", "http://192.168.1.5", "http://evil.example"):
            client("POST", "/projects", 403, json={"name": "a"}, headers={**ours, "origin": origin})
        client("POST", "/projects", 201, json={"name": "a"}, headers={**ours, "origin": "http://192.168.1.5:8765"})


def test_a_service_of_this_machine_answers_to_no_other_ip_address(client: Client) -> None:
    assert "'192.168.1.5'" in client("GET", "/projects", 403, headers={"host": "192.168.1.5"})["message"]


def test_the_address_for_other_machines_is_not_that_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere = address_of("0.0.0.0", 80, TOKEN)
    monkeypatch.setattr("implanting.serve.running._own_ip_address", lambda _: "192.168.1.5")
    assert everywhere.url_elsewhere == f"http://192.168.1.5:80/?token={TOKEN}"
    monkeypatch.setattr("implanting.serve.running._own_ip_address", lambda _: "fd00::5")
    assert address_of("::", 80, TOKEN).url_elsewhere == f"http://[fd00::5]:80/?token={TOKEN}"
    monkeypatch.setattr("implanting.serve.running._own_ip_address", lambda _: None)  # there is no network
    assert everywhere.url_elsewhere == f"http://{socket.gethostname()}:80/?token={TOKEN}"
    assert address_of("192.168.1.5", 80, TOKEN).url_elsewhere is None


def test_the_own_ip_address_is_not_that_of_the_loop_back() -> None:
    number = _own_ip_address(socket.AF_INET)
    assert number is None or not ipaddress.ip_address(number).is_loopback


def test_other_machines_need_a_token() -> None:
    with pytest.raises(ConfigError, match="needs a `token`"):
        address_of("0.0.0.0", 1, None)
    with pytest.raises(ConfigError, match="12 or more"):
        address_of("127.0.0.1", 1, "short")
    assert address_of("0.0.0.0", 80, TOKEN).url == f"http://localhost:80/?token={TOKEN}"
    assert address_of("::1", 80, None).local
    assert not address_of("192.168.1.5", 80, TOKEN).local
