"""Who may talk to Redis, and who it is: users with the least rights, passwords from where they are kept, TLS."""
import hashlib
import re

import pytest

from origin import ok
from pki import Pki
from redis_rig import Cluster, RedisError, Server, Watched
from rig import ROOT, free_port, ini, with_file
from test_inbound import Place, together
from wire import request

PASSWORD = "correct horse"
ADMIN = ("admin", "of-the-test")
ALGORITHMS = ("token_bucket", "fixed_window", "sliding_window_log", "sliding_window_counter", "sliding_window_strict", "leaky_bucket")


def shipped(name, directory, *more):
    """The file in conf/redis with a password put in, as its user would, and users of the test's own."""
    digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
    text = (ROOT / "conf" / "redis" / name).read_text().replace("user sluice off", f"user sluice on #{digest}")
    path = directory / name
    path.write_text(text + f"user {ADMIN[0]} on >{ADMIN[1]} ~* &* +@all\n" + "".join(f"{line}\n" for line in more))
    return path


def secret(rig, text=PASSWORD + "\n", name="password", mode=0o600):
    path = rig.directory / name
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def guarded(rig):
    """A server with the shipped users."""
    return Server(rig, "--aclfile", shipped("sluice.acl", rig.directory), login=ADMIN).start()


def login(rig):
    return {"user": "sluice", "password_file": secret(rig)}


# ---- least rights

def test_the_shipped_user_does_all_that_pacing_and_admission_need(rig, origin, guarded):
    """Every script, every algorithm, a pause by the third party, slots given back: not one command is refused."""
    origin.on("/busy", ok(b"no", "Retry-After: 1", status="429 Too Many Requests"))
    redis = {"url": f"redis://{guarded.address}", **login(rig)}
    rules = "".join(f"[inbound-rule r{n}]\ninbound = api\nalgorithm = {algorithm}\nrate = 100/s\n"
                    for n, algorithm in enumerate(ALGORITHMS))
    place = Place(rig, origin, "rate = 100/s\non_redis_down = closed", rules, redis=None)
    place.sluice.stop()
    text = place.sluice.config.read_text() + "[redis]\n" + "".join(f"{key} = {value}\n" for key, value in redis.items())
    sluice = rig.sluice(text)
    sluice.wait_event("redis_up")
    found = together([lambda: place.ask("/x")] * 12)
    assert found[200] > 0 and found[200] + found[429] == 12, found
    for path in ("/a", "/busy", "/b"):
        sluice.get(origin.url(path))
    caller = sluice.caller().send(request("GET", origin.url("/left")))
    caller.close()
    assert sluice.get(origin.url("/last")).status == 200
    assert guarded.command("ACL", "LOG") == []
    assert len(sluice.events("redis_up")) == 1 and not sluice.events("redis_bad_reply")


def test_scripts_that_a_server_forgot_are_loaded_again_by_the_shipped_user(rig, origin, guarded):
    sluice = rig.sluice(redis={"url": f"redis://{guarded.address}", **login(rig)})
    assert sluice.get(origin.url()).status == 200
    guarded.command("SCRIPT", "FLUSH")
    assert sluice.get(origin.url()).status == 200
    assert guarded.command("ACL", "LOG") == []


@pytest.mark.parametrize("words", [
    ("FLUSHALL",), ("KEYS", "*"), ("GET", "other:1"), ("SET", "x", "1"), ("EVAL", "return redis.call('GET', KEYS[1])", "1", "other:1"),
    ("EVAL", "return redis.call('FLUSHALL')", "0"), ("CONFIG", "GET", "*"), ("ACL", "LIST"), ("SCRIPT", "FLUSH"), ("SHUTDOWN",),
    ("CLIENT", "LIST"), ("CLIENT", "KILL", "TYPE", "normal"), ("CLUSTER", "NODES"), ("SCAN", "0"), ("PUBLISH", "c", "x"), ("MONITOR",),
])
def test_the_shipped_user_may_do_nothing_else(shared_guarded, words):
    with pytest.raises(RedisError, match="^NOPERM|^ERR The user executing the script can't"):
        shared_guarded.command(*words, login=("sluice", PASSWORD))


@pytest.fixture(scope="module")
def shared_guarded(shared_rig):
    return Server(shared_rig, "--aclfile", shipped("sluice.acl", shared_rig.directory), login=ADMIN).start()


def test_the_shipped_user_has_every_command_of_the_scripts_and_none_more(tmp_path):
    """A script that learns a command needs it in the file; a command that no script has should leave it."""
    allowed = set(re.findall(r" \+([a-z]+)(?=\s)", (ROOT / "conf" / "redis" / "sluice.acl").read_text()))
    used = set()
    for script in (ROOT / "src" / "lua").glob("*.lua"):
        used |= {name.lower() for name in re.findall(r"\b(?:call|pcall|try)\('([A-Z]+)'", script.read_text())}
    assert allowed - {"evalsha", "eval", "info", "role", "select", "asking"} == used
    assert tmp_path


def test_a_user_who_lacks_a_command_of_the_scripts_is_named(rig, origin):
    """Redis says that inside of a script with another code than outside."""
    acl = shipped("sluice.acl", rig.directory)
    acl.write_text(acl.read_text().replace(" +hmget", ""))
    server = Server(rig, "--aclfile", acl, login=ADMIN).start()
    sluice = rig.sluice(default={"max_wait": "1s"}, redis={"url": f"redis://{server.address}", **login(rig)})
    assert sluice.get(origin.url()).status == 504 and origin.requests == []
    assert sluice.wait_event("redis_down", why="the server can't serve: NOPERM")


def test_keys_of_another_prefix_are_named_as_not_permitted(rig, origin, guarded):
    sluice = rig.sluice(default={"max_wait": "1s"}, redis={"url": f"redis://{guarded.address}", "prefix": "other", **login(rig)})
    assert sluice.get(origin.url()).status == 504 and origin.requests == []
    assert sluice.wait_event("redis_down", why="the server can't serve: NOPERM")


def test_the_shipped_users_do_for_sentinels_and_a_cluster(rig, origin):
    inner = ("--aclfile", shipped("sluice.acl", rig.directory), "--masteruser", ADMIN[0], "--masterauth", ADMIN[1])
    watched = Watched(rig, options=inner, login=ADMIN, sentinel_options=("--aclfile", shipped("sentinel.acl", rig.directory)),
                      sentinel_login=ADMIN)
    sluice = rig.sluice(redis={"url": watched.url, "sentinel_user": "sluice", "sentinel_password_file": secret(rig), **login(rig)})
    assert sluice.get(origin.url()).status == 200
    cluster = Cluster(rig, 2, 0, options=inner, login=ADMIN)
    sluice = rig.sluice(redis={"url": cluster.url, **login(rig)})
    assert sluice.get(origin.url()).status == 200
    for server in watched.servers + watched.sentinels + cluster.servers:
        assert server.command("ACL", "LOG") == []


# ---- passwords

@pytest.mark.parametrize("text", [PASSWORD, PASSWORD + "\n", PASSWORD + "\r\n"])
def test_a_password_may_be_in_a_file(rig, origin, text):
    server = Server(rig, "--requirepass", PASSWORD, login=("default", PASSWORD)).start()
    sluice = rig.sluice(redis={"url": f"redis://{server.address}", "password_file": secret(rig, text)})
    assert sluice.get(origin.url()).status == 200
    assert PASSWORD not in sluice.text()


def test_a_password_may_be_in_the_environment(rig, origin, guarded, monkeypatch):
    monkeypatch.setenv("SLUICE_REDIS_PASSWORD", PASSWORD)
    sluice = rig.sluice(redis={"url": f"redis://{guarded.address}", "user": "sluice", "password_env": "SLUICE_REDIS_PASSWORD"})
    assert sluice.get(origin.url()).status == 200
    assert PASSWORD not in sluice.text()


def test_wrong_passwords_users_and_none_at_all_are_named_and_never_shown(rig, guarded):
    for keys, why in (({"user": "sluice", "password_file": secret(rig, "wrong-one", "wrong")}, "wrong user or password (WRONGPASS)"),
                      ({"user": "nobody", "password_file": secret(rig)}, "wrong user or password (WRONGPASS)"),
                      ({}, "a password is required (NOAUTH)")):
        sluice = rig.sluice(redis={"url": f"redis://{guarded.address}", **keys})
        sluice.wait_event("redis_down", why=why)
        assert "wrong-one" not in sluice.text() and PASSWORD not in sluice.text()


@pytest.mark.parametrize("keys,why", [
    ("password_file = /no/such", "/no/such cannot be read: No such file or directory"),
    ("password_file = {dir}/empty", "does not hold one line of 1 to 1024 bytes, the password"),
    ("password_file = {dir}/two", "does not hold one line of 1 to 1024 bytes, the password"),
    ("password_file = {dir}", "cannot be read: Is a directory"),
    ("password_env = NO_SUCH_VARIABLE", "the environment has no variable of that name"),
    ("password_env = secret-itself", "the environment has no variable of that name"),
    ("password_file = {dir}/one\npassword_env = HOME", "the password is in password_file already; set one of the two"),
    ("user = x", "a user needs a password: set password_file or password_env"),
    ("sentinel_user = x", "a user needs a password: set sentinel_password_file or sentinel_password_env"),
    ("client_key = /x", "a key without client_cert"),
    ("pasword_file = /x", "password_file"),
])
def test_mistakes_about_passwords_are_told(tmp_path, keys, why):
    for name, text in (("empty", ""), ("one", "secret-1\n"), ("two", "secret-1\nsecret-2\n")):
        (tmp_path / name).write_text(text)
    done = with_file(tmp_path, "[redis]\nurl = redis://h\n" + keys.format(dir=tmp_path) + "\n", "--check")
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert "secret-" not in done.stderr + done.stdout


def test_a_password_beside_one_in_the_url_is_refused_and_an_open_file_is_warned_of(tmp_path):
    path = tmp_path / "pw"
    path.write_text("secret-1\n")
    path.chmod(0o644)
    done = with_file(tmp_path, f"[redis]\nurl = redis://u:secret-2@h\npassword_file = {path}\n", "--check")
    assert done.returncode == 2 and "there is a password in url already" in done.stderr and "secret-" not in done.stderr
    done = with_file(tmp_path, f"[redis]\nurl = redis://h\npassword_file = {path}\nca_file = /x\n", "--check")
    assert done.returncode == 0, done.stderr
    assert "every user of this machine can read it" in done.stderr and "has no effect without TLS" in done.stderr
    done = with_file(tmp_path, f"[redis]\nurl = redis://h\npassword_file = {path}\n", "--dump-config")
    assert f"password_file = {path}" in done.stdout and "secret-" not in done.stdout


# ---- TLS

@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return Pki(tmp_path_factory.mktemp("pki"))


def tls(pki, certificate, clients="no"):
    return ("--tls-cert-file", str(certificate[0]), "--tls-key-file", str(certificate[1]), "--tls-ca-cert-file", str(pki.ca),
            "--tls-auth-clients", clients, "--tls-replication", "yes")


def secure_server(rig, pki, certificate=None, clients="no"):
    return Server(rig, tls=tls(pki, certificate or pki.issue(), clients)).start()


def test_a_server_is_trusted_by_a_ca_file_for_its_name_and_its_address(rig, origin, pki):
    server = secure_server(rig, pki)
    for host in ("localhost", "127.0.0.1"):
        sluice = rig.sluice(redis={"url": f"rediss://{host}:{server.port}", "ca_file": pki.ca})
        assert sluice.get(origin.url()).status == 200, host


@pytest.mark.parametrize("host,made,why", [
    ("localhost", lambda pki: pki.issue("other", "DNS:other.example,IP:127.0.0.2"), "TLS: hostname mismatch"),
    ("127.0.0.1", lambda pki: pki.issue("other", "DNS:localhost,IP:127.0.0.2"), "TLS: IP address mismatch"),
    ("localhost", lambda pki: pki.issue(days=(-10, -1)), "TLS: certificate has expired"),
    ("localhost", lambda pki: pki.issue(days=(1, 10)), "TLS: certificate is not yet valid"),
    ("localhost", lambda pki: pki.self_signed(), "TLS: self-signed certificate"),
])
def test_a_server_that_does_not_prove_who_it_is_is_refused_by_name(rig, origin, pki, host, made, why):
    server = secure_server(rig, pki, made(pki))
    sluice = rig.sluice(redis={"url": f"rediss://{host}:{server.port}", "ca_file": pki.ca})
    sluice.wait_event("redis_down", why=why)
    caller = sluice.caller().send(request("GET", origin.url()))
    assert caller.silent_for(0.2) and origin.requests == []


def test_an_authority_that_is_not_trusted_is_named(rig, pki, tmp_path):
    server = secure_server(rig, pki)
    other = Pki(tmp_path)
    for more in ({"ca_file": other.ca}, {}):
        sluice = rig.sluice(redis={"url": f"rediss://localhost:{server.port}", **more})
        told = sluice.wait_event("redis_down")[0]["why"]
        assert told in ("TLS: unable to get local issuer certificate", "TLS: self-signed certificate in certificate chain",
                        "TLS: certificate signature failure"), told


def test_a_client_certificate_is_shown_where_it_is_asked_for(rig, origin, pki):
    server = secure_server(rig, pki, clients="yes")
    cert, key = pki.issue("sluice")
    both = rig.directory / "both.pem"
    both.write_text(cert.read_text() + key.read_text())
    for files in ({"client_cert": cert, "client_key": key}, {"client_cert": both}):
        sluice = rig.sluice(redis={"url": f"rediss://localhost:{server.port}", "ca_file": pki.ca, **files})
        assert sluice.get(origin.url()).status == 200


def test_a_server_that_wants_a_client_certificate_and_gets_none_is_named(rig, pki, tmp_path):
    server = secure_server(rig, pki, clients="yes")
    stranger = Pki(tmp_path).issue("sluice")
    for files in ({}, {"client_cert": stranger[0], "client_key": stranger[1]}):
        sluice = rig.sluice(redis={"url": f"rediss://localhost:{server.port}", "ca_file": pki.ca, **files})
        told = sluice.wait_event("redis_down")[0]["why"]
        hint = "does the server trust the issuer of client_cert?" if files else "does the server ask for a client certificate? (client_cert)"
        assert told.startswith("connection ") and told.endswith("; " + hint), told


@pytest.mark.parametrize("keys,why", [
    ("ca_file = /no/such", "[redis] ca_file: /no/such can't be used: No such file or directory"),
    ("ca_file = {dir}/s.ini", "[redis] ca_file: {dir}/s.ini can't be used: "),
    ("client_cert = {dir}/s.ini", "[redis] client_cert: {dir}/s.ini can't be used: "),
    ("client_cert = {cert}", "[redis] client_key: {cert} can't be used: "),
    ("client_cert = {cert}\nclient_key = {other}", "[redis] client_key: {other} can't be used: key values mismatch"),
])
def test_files_of_tls_that_can_not_be_used_end_it_at_the_start(tmp_path, pki, keys, why):
    names = {"dir": tmp_path, "cert": pki.issue()[0], "other": pki.issue()[1]}
    text = ini({"listen": f"127.0.0.1:{free_port()}"}, redis={"url": "rediss://localhost"}).replace("[default]", keys.format(**names) + "\n[default]")
    for check in (["--check"], []):
        done = with_file(tmp_path, text, *check)
        assert done.returncode != 0 and why.format(**names) in done.stderr, done.stderr


def test_sentinels_and_a_cluster_over_tls(rig, origin, pki):
    """All of it: the sentinels' own port, the servers', and where they send each other's clients."""
    files = tls(pki, pki.issue())
    watched = Watched(rig, tls=files)
    assert watched.url.startswith("sentinels://")
    sluice = rig.sluice(redis={"url": watched.url, "ca_file": pki.ca})
    assert sluice.get(origin.url()).status == 200
    cluster = Cluster(rig, 2, 0, tls=(*files, "--tls-cluster", "yes"))
    sluice = rig.sluice(redis={"url": cluster.url, "ca_file": pki.ca})
    assert sluice.get(origin.url()).status == 200
