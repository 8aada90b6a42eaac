"""Who may use the proxy, and for which hosts."""
import base64

import pytest

from rig import with_file


def basic(user, password):
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def users(rig):
    """Two users, their passwords hashed by crypt(3) with few rounds."""
    path = rig.directory / "users"
    path.write_text(f"alice:{hashed('pass word')}\n# remark\n\nbob:{hashed('geheim')}\n")
    return str(path)


def hashed(password):
    crypt = pytest.importorskip("crypt")
    return crypt.crypt(password, crypt.mksalt(crypt.METHOD_SHA512, rounds=1000))


def test_with_users_only_they_get_through(rig, origin, users):
    sluice = rig.sluice(proxy={"auth": users})
    for headers in ([], [basic("alice", "wrong")], [basic("carol", "pass word")], ["Proxy-Authorization: Basic ???"], [basic("", "")],
                    ["Proxy-Authorization: Bearer x"]):
        response = sluice.get(origin.url(), *headers)
        assert response.status == 407
        assert response.get("Proxy-Authenticate").startswith("Basic realm=")
    assert origin.requests == []
    for credentials in (basic("bob", "geheim"), basic("alice", "pass word"), basic("bob", "geheim")):
        assert sluice.get(origin.url(), credentials).status == 200


def test_credentials_for_the_proxy_are_not_passed_on(rig, origin, users):
    sluice = rig.sluice(proxy={"auth": users})
    assert sluice.get(origin.url(), basic("bob", "geheim"), "Authorization: Bearer mine").status == 200
    assert origin.requests[0].all("Proxy-Authorization") == []
    assert origin.requests[0].all("Authorization") == ["Bearer mine"]


@pytest.mark.parametrize("text, told", [(None, "users"), ("alice\n", "users:1"), ("a:$6$x\nbob:{SHA}W6ph5Mm5Pz8=\n", "users:2")])
def test_a_users_file_that_is_missing_or_bad_stops_the_start(tmp_path, text, told):
    path = tmp_path / "users"
    if text is not None:
        path.write_text(text)
    done = with_file(tmp_path, f"[proxy]\nlisten = 127.0.0.1:3128\nauth = {path}\n")
    assert done.returncode != 0 and str(tmp_path / told) in done.stderr


def test_only_listed_clients_may_come(rig, origin):
    sluice = rig.sluice(proxy={"allow_clients": "10.0.0.0/8"})
    response = sluice.get(origin.url())
    assert response.status == 403 and origin.requests == []
    listed = rig.sluice(proxy={"allow_clients": "10.0.0.0/8, 127.0.0.0/8"})
    assert listed.get(origin.url()).status == 200


def test_unlisted_hosts_can_be_denied(rig, origin):
    other = rig.origin()
    sluice = rig.sluice(proxy={"unlisted": "deny"}, destinations={"one": {"hosts": origin.authority}})
    assert sluice.get(origin.url()).status == 200
    response = sluice.get(other.url())
    assert response.status == 403 and other.requests == []


def test_the_most_specific_destination_wins(rig, origin):
    sluice = rig.sluice(destinations={"all": {"hosts": "127.0.0.1"}, "one": {"hosts": origin.authority}})
    other = rig.origin()
    sluice.get(origin.url())
    sluice.get(other.url())
    assert [e["destination"] for e in sluice.access(2)] == ["one", "all"]
