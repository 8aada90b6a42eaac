"""A primary found through sentinels: through failovers nothing exceeds the rate, and what waits is sent in the end."""
import signal

import pytest

from origin import ok
from redis_rig import OUTAGE_RATE, Server, Watched, served_through
from rig import eventually, free_port, with_file
from test_inbound import Place, together
from wire import request

def fleet(rig, url, count=2, **redis):
    replicas = [rig.sluice(default={"rate": f"{OUTAGE_RATE}/s", "max_wait": "80s"}, redis={"url": url, **redis}) for _ in range(count)]
    for sluice in replicas:
        sluice.wait_event("redis_up")
    return replicas


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_primary_that_is_gone_is_replaced_under_load(rig, origin, how):
    """By one whose clock is 9 s behind. Frozen: it comes back believing that it is still the primary."""
    watched = Watched(rig, skews=(4, -5))
    replicas = fleet(rig, watched.url)

    def lose():
        if how == "killed":
            watched.primary.kill()
        else:
            watched.primary.process.signal(signal.SIGSTOP)
        watched.wait_for_another(watched.primary)
        if how == "frozen":
            watched.primary.process.signal(signal.SIGCONT)

    served_through(rig, origin, replicas, lose)
    for sluice in replicas:
        ports = [event["port"] for event in sluice.events("redis_up")]
        assert ports[0] == str(watched.primary.port) and ports[-1] == str(watched.named().port)


def test_a_failover_on_demand_under_load_and_back_again(rig, origin):
    """The sentinels are told to change primaries while calls wait, with min-replicas-to-write in force."""
    watched = Watched(rig, options=("--min-replicas-to-write", 1, "--min-replicas-max-lag", 2))
    replicas = fleet(rig, watched.url)

    def fail_over():
        old = watched.named()
        watched.sentinels[0].command("SENTINEL", "FAILOVER", "mymaster")
        watched.wait_for_another(old)

    served_through(rig, origin, replicas, fail_over)
    for sluice in replicas:
        assert sluice.wait_event("redis_up", port=watched.named().port)


def test_the_sentinel_that_answers_is_asked_and_the_dead_ones_are_passed_over(rig, origin):
    watched = Watched(rig)
    watched.sentinels[0].kill()
    watched.sentinels[1].process.signal(signal.SIGSTOP)
    sluice = fleet(rig, watched.url, 1)[0]
    assert sluice.get(origin.url()).status == 200
    watched.primary.command("CLIENT", "KILL", "TYPE", "normal")
    assert sluice.wait_event("redis_up", 2)
    assert sluice.get(origin.url()).status == 200
    watched.sentinels[1].process.signal(signal.SIGCONT)


def test_a_server_that_is_named_but_not_the_primary_is_refused_until_it_is(rig, origin):
    """What a sentinel says is where to look, not the truth."""
    primary = Server(rig).start()
    replica = Server(rig, "--replicaof", "127.0.0.1", primary.port).start()
    sentinel = Server(rig, name="sentinel", sentinel=True).start()
    sentinel.command("SENTINEL", "MONITOR", "mymaster", "127.0.0.1", replica.port, 1)
    sluice = rig.sluice(redis={"url": f"sentinel://{sentinel.address}/mymaster"})
    assert sluice.wait_event("redis_down", why="not the primary", port=replica.port)
    caller = sluice.caller().send(request("GET", origin.url()))
    assert caller.silent_for(0.3) and origin.requests == []
    replica.command("REPLICAOF", "NO", "ONE")
    assert caller.response().status == 200


def test_sentinels_that_are_of_no_use_are_named_with_the_reason(rig):
    nobody = free_port()
    server = Server(rig).start()
    sentinel = Server(rig, name="sentinel", sentinel=True).start()
    for hosts, why in ((f"127.0.0.1:{nobody}", "Connection refused"),
                       (server.address, "SENTINEL refused (is it a sentinel?): ERR"),
                       (sentinel.address, "knows no primary of the name that is in url")):
        sluice = rig.sluice(redis={"url": f"sentinel://{hosts}/mymaster"})
        sluice.wait_event("redis_down", why=f"sentinel {hosts}: " + ("connect: " if str(nobody) in hosts else "") + why)


def test_passwords_of_sentinels_are_their_own(rig, origin):
    watched = Watched(rig, options=("--requirepass", "of-servers", "--masterauth", "of-servers"), sentinel_options=("--requirepass", "of-sentinels"),
                      login=("default", "of-servers"), sentinel_login=("default", "of-sentinels"))
    for name, text in (("servers", "of-servers\n"), ("sentinels", "of-sentinels\n"), ("wrong", "wrong-one\n")):
        (rig.directory / name).write_text(text)
        (rig.directory / name).chmod(0o600)
    files = {"password_file": rig.directory / "servers", "sentinel_password_file": rig.directory / "sentinels"}
    good = fleet(rig, watched.url, 1, **files)[0]
    assert good.get(origin.url()).status == 200
    for more, why in (({"sentinel_password_file": rig.directory / "wrong"}, "wrong user or password (WRONGPASS)"),
                      ({}, "a password is required (NOAUTH)")):
        sluice = rig.sluice(redis={"url": watched.url, "password_file": rig.directory / "servers", **more})
        told = sluice.wait_event("redis_down")[0]["why"]
        assert told.startswith("sentinel ") and told.endswith(why)
        assert "wrong-one" not in sluice.text() and "of-se" not in sluice.text()


def test_admission_goes_on_with_the_new_primary(rig, origin):
    origin.on("/x", ok())
    watched = Watched(rig)
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 5\nkey = header:X-Key\non_redis_down = closed", redis=watched)
    place.sluice.wait_event("redis_up")
    assert together([lambda: place.ask("/x", "X-Key: a")] * 8) == {200: 5, 429: 3}
    watched.primary.kill()
    watched.wait_for_another(watched.primary)
    place.sluice.wait_event("redis_up", 2, seconds=30)
    eventually(lambda: place.ask("/x", "X-Key: other").status == 200, why="decisions by Redis")
    assert place.ask("/x", "X-Key: a").status == 429, "the replica had what was counted"


@pytest.mark.parametrize("url,why", [
    ("sentinel://h", "the primary's name, as the sentinels know it, is missing: sentinel://HOST,HOST/NAME"),
    ("sentinal://h/m", "did you mean sentinel?"),
    ("claster://h", "did you mean cluster?"),
    ("redis://a,b", "several hosts: write sentinel://HOST,HOST/NAME or cluster://HOST,HOST"),
    ("cluster://a,b/3", "a cluster has no databases: nothing follows the hosts"),
    ("cluster://a,,b", "the host is missing or not a name or address"),
    ("sentinel://a:x/m", "the port is not a number from 1 to 65535"),
])
def test_mistakes_in_the_url_are_told_with_what_was_meant(tmp_path, url, why):
    done = with_file(tmp_path, f"[redis]\nurl = {url}\n", "--check")
    assert done.returncode == 2 and why in done.stderr, done.stderr


def test_a_mistaken_key_is_told_with_what_was_meant(tmp_path):
    done = with_file(tmp_path, "[redis]\nurl = redis://h\nsentinel_pasword_file = /x\n", "--check")
    assert done.returncode == 2 and "sentinel_password_file" in done.stderr
