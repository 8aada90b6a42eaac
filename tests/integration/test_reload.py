"""Other settings while it runs: all or nothing, nobody loses a place, and the log says what is different."""
import subprocess

import pytest

from origin import ok
from pki import Pki, TlsOrigin
from rig import answers, eventually, free_port, ini
from wire import Caller, request


def write(sluice, old, new):
    text = sluice.config.read_text()
    assert old in text
    sluice.config.write_text(text.replace(old, new))


def reload(sluice, *edits, refused=False):
    """Edits the settings, hangs up, and waits for what becomes of it: the event that ends the reload."""
    for old, new in edits:
        write(sluice, old, new)
    name = "reload_refused" if refused else "reloaded"
    before = len(sluice.events(name))
    sluice.signal(1)
    return sluice.wait_event(name, before + 1)[-1]


def waiting(sluice, origin, count, path="/waits"):
    callers = [sluice.caller() for _ in range(count)]
    for number, caller in enumerate(callers):
        caller.send(request("GET", origin.url(f"{path}{number}")))
        assert caller.silent_for(0.05)
    return callers


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "redis"])
def test_a_higher_rate_reaches_who_waits_already(rig, origin, shared):
    redis = {"url": rig.redis().url} if shared else None
    sluice = rig.sluice(default={"rate": "10/s", "max_wait": "1d"}, redis=redis,
                        destinations={"slow": {"hosts": "127.0.0.1"}})
    assert sluice.get(origin.url("/first")).status == 200
    reload(sluice, ("rate = 10/s", "rate = 1/1h"))
    assert sluice.get(origin.url("/second")).status == 200
    callers = waiting(sluice, origin, 4)
    assert origin.to("/waits0") == [], "the next slot is an hour away"
    reload(sluice, ("rate = 1/1h", "rate = 10/s"))
    assert [caller.response().status for caller in callers] == [200] * 4
    assert [r.target for r in origin.requests[2:]] == [f"/waits{n}" for n in range(4)], "in the order they came"
    stamps = origin.stamps()[1:]
    assert all(after - before >= 0.09 for before, after in zip(stamps, stamps[1:]))


def test_who_waits_for_the_first_slot_of_all_is_heard_of_again(rig, origin):
    """A Redis that knows nothing of a destination opens it after one interval, which was an hour."""
    sluice = rig.sluice(default={"rate": "1/1h", "max_wait": "1d"}, redis={"url": rig.redis().url})
    sluice.wait_event("redis_up")
    callers = waiting(sluice, origin, 2)
    reload(sluice, ("rate = 1/1h", "rate = 10/s"))
    assert [caller.response().status for caller in callers] == [200] * 2


def test_hosts_without_a_section_follow_the_default(rig, origin):
    sluice = rig.sluice(default={"rate": "1/1h", "max_wait": "1d"})
    assert sluice.get(origin.url("/first")).status == 200
    callers = waiting(sluice, origin, 3)
    reload(sluice, ("rate = 1/1h", "rate = 10/s"))
    assert [caller.response().status for caller in callers] == [200] * 3


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "redis"])
def test_parts_of_a_destination_follow_it(rig, origin, shared):
    """A bucket for each key, and one for a route: who waits there is let out at the new rate, too."""
    sluice = rig.sluice(ini(
        default={"rate": "10/s", "max_wait": "1d"}, redis={"url": rig.redis().url} if shared else None,
        destinations={"keyed": {"hosts": "127.0.0.1", "key": "header:X-Key"}, "routed": {"hosts": "localhost", "rate": "50/s"}}) +
        "[route slow]\ndestination = routed\nmatch = /slow/*\nrate = 10/s\n")
    routed = f"http://localhost:{origin.port}/slow/"
    for answer in (sluice.get(origin.url("/first"), "X-Key: one"), sluice.get(routed + "first")):
        assert answer.status == 200
    reload(sluice, ("rate = 10/s", "rate = 1/1h"))
    for answer in (sluice.get(origin.url("/second"), "X-Key: one"), sluice.get(routed + "second")):
        assert answer.status == 200
    callers = [sluice.caller().send(request("GET", origin.url(f"/{n}"), "X-Key: one")) for n in range(2)]
    callers += [sluice.caller().send(request("GET", f"{routed}{n}")) for n in range(2)]
    assert callers[-1].silent_for(0.3)
    reload(sluice, ("rate = 1/1h", "rate = 10/s"))
    assert [caller.response().status for caller in callers] == [200] * 4


def test_a_lower_rate_holds_who_waits_already(rig, origin):
    sluice = rig.sluice(default={"rate": "2/s", "horizon": "50ms", "max_wait": "1d"},
                        destinations={"fast": {"hosts": "127.0.0.1"}})
    callers = [sluice.caller() for _ in range(8)]
    for number, caller in enumerate(callers):
        caller.send(request("GET", origin.url(f"/{number}")))
    origin.wait(1)
    reload(sluice, ("rate = 2/s", "rate = 1/s"))
    seen = len(origin.stamps())
    origin.wait(seen + 3)
    stamps = origin.stamps()[seen:seen + 3]
    assert all(after - before >= 0.99 for before, after in zip(stamps, stamps[1:]))


def test_a_mistake_changes_nothing_and_is_told_with_its_place(rig, origin):
    sluice = rig.sluice(default={"rate": "50/s"})
    good = sluice.config.read_text()
    line = good.splitlines().index("rate = 50/s") + 1
    reload(sluice, ("rate = 50/s", "rat = 1/1h\nmax_wait = never"), refused=True)
    mistakes = [e["mistake"] for e in sluice.events("reload_mistake")]
    assert any(f":{line}: [default] rat: unknown key; did you mean rate?" in m for m in mistakes), mistakes
    assert any(f":{line + 1}: [default] max_wait" in m for m in mistakes), "all mistakes, not the first alone"
    for number in range(3):
        assert sluice.get(origin.url(f"/{number}")).status == 200
    sluice.config.write_text(good)
    assert reload(sluice)["changes"] == "0"


def test_settings_that_are_gone_change_nothing(rig, origin):
    sluice = rig.sluice()
    sluice.config.rename(sluice.config.with_suffix(".away"))
    reload(sluice, refused=True)
    assert "cannot be opened" in sluice.events("reload_mistake")[0]["mistake"]
    assert sluice.get(origin.url()).status == 200
    sluice.config.with_suffix(".away").rename(sluice.config)


def test_a_removed_destination_works_off_who_waits(rig, origin):
    sluice = rig.sluice(proxy={"unlisted": "deny"}, destinations={"api": {"hosts": "127.0.0.1", "rate": "2/s"}})
    assert sluice.get(origin.url("/first")).status == 200
    callers = [sluice.caller().send(request("GET", origin.url(f"/{n}"))) for n in range(4)]
    assert callers[-1].silent_for(0.2)
    reload(sluice, ("[destination api]\nhosts = 127.0.0.1\n", "[destination api]\nhosts = api.example.com\n"))
    reload(sluice, ("[destination api]\nhosts = api.example.com\nrate = 2/s\n", ""))
    assert sluice.get(origin.url("/new")).status == 403
    assert [caller.response().status for caller in callers] == [200] * 4
    stamps = origin.stamps()
    assert all(after - before >= 0.49 for before, after in zip(stamps, stamps[1:])), "at the rate it had"


def test_a_new_destination_is_there_at_once(rig, origin):
    sluice = rig.sluice(proxy={"unlisted": "deny"})
    assert sluice.get(origin.url("/")).status == 403
    sluice.config.write_text(sluice.config.read_text() + "[destination api]\nhosts = 127.0.0.1\n")
    reload(sluice)
    assert sluice.get(origin.url("/")).status == 200


def test_addresses_come_and_go_without_dropping_a_connection(rig, origin):
    gate = origin.gate()
    origin.on("/slow", lambda peer, _: (gate.wait(), peer.send(ok(b"late"))))
    sluice = rig.sluice()
    old, new = sluice.address, ("127.0.0.1", free_port())
    kept, busy = sluice.caller(), sluice.caller()
    assert kept.get(origin.url("/before")).status == 200
    busy.send(request("GET", origin.url("/slow")))
    origin.wait(1, "/slow")
    listen = "listen = %s:%d"
    reload(sluice, (listen % old, listen % old + ", %s:%d" % new))
    assert answers(old) and answers(new)
    reload(sluice, (listen % old + ", %s:%d" % new, listen % new))
    assert not answers(old)
    assert kept.get(origin.url("/after")).status == 200, "a kept connection stays"
    gate.set()
    assert busy.response().body == b"late"
    other = Caller(new)
    assert other.get(origin.url("/new")).status == 200
    other.close()


def test_an_address_that_is_taken_changes_nothing(rig, origin):
    sluice = rig.sluice(default={"rate": "50/s"})
    taken = rig.origin()
    reload(sluice, ("listen = ", f"listen = {taken.authority}, "), ("rate = 50/s", "rate = 1/1h"), refused=True)
    assert "can't listen on" in sluice.events("reload_mistake")[0]["mistake"]
    for number in range(3):
        assert sluice.get(origin.url(f"/{number}")).status == 200, "at the rate it had"


def test_users_are_read_again(rig, origin):
    def hashed(name, password):
        return subprocess.run(["openssl", "passwd", "-6", password], capture_output=True, text=True,
                              check=True).stdout.strip().join([f"{name}:", "\n"])

    users = rig.directory / "users"
    users.write_text(hashed("ann", "old"))
    sluice = rig.sluice(proxy={"auth": str(users)})
    old, new = ("Proxy-Authorization: Basic " + code for code in ("YW5uOm9sZA==", "YW5uOm5ldw=="))
    assert sluice.get(origin.url(), old).status == 200
    users.write_text(hashed("ann", "new"))
    assert sluice.get(origin.url(), old).status == 200, "not before it is told to"
    reload(sluice)
    assert sluice.get(origin.url(), old).status == 407
    assert sluice.get(origin.url(), new).status == 200
    users.write_text("ann:plain\n")
    reload(sluice, refused=True)
    assert sluice.get(origin.url(), new).status == 200
    users.write_text(hashed("ann", "new"))


def test_who_may_come_and_where_to_changes(rig, origin):
    sluice = rig.sluice()
    reload(sluice, ("private_upstreams = allow", "private_upstreams = allow\nallow_clients = 10.0.0.0/8"))
    assert sluice.get(origin.url()).status == 403
    reload(sluice, ("allow_clients = 10.0.0.0/8\n", ""))
    assert sluice.get(origin.url()).status == 200
    reload(sluice, ("private_upstreams = allow", "private_upstreams = deny"))
    refusal = sluice.get(origin.url("/x"))
    assert refusal.status == 403 and b"private" in refusal.body


def test_every_change_is_logged_and_what_needs_a_restart_is_named(rig, origin):
    redis = rig.redis()
    sluice = rig.sluice(redis={"url": redis.url}, destinations={"a": {"rate": "1/s"}, "b": {}})
    result = reload(sluice, (f"url = {redis.url}", "url = redis://me:hush-hush@127.0.0.1:1/0"),
                    ("rate = 1000/s", "rate = 900/s"), ("[destination b]\n", "[destination c]\n"))
    changed = [(e["section"], e["key"], e["from"], e["to"]) for e in sluice.events("setting_changed")]
    assert ("default", "rate", "1000/s", "900/s") in changed
    assert ("destination c", "(section)", "", "there") in changed
    assert ("destination b", "(section)", "there", "") in changed
    assert len(changed) == 3 and result["changes"] == "4", "what is inherited is told once"
    fixed = sluice.wait_event("needs_restart")[0]
    assert (fixed["section"], fixed["key"]) == ("redis", "url")
    assert any("needs a restart: redis.url" in e["warning"] for e in sluice.events("reload_warning"))
    assert "hush-hush" not in sluice.text()
    assert sluice.get(origin.url()).status == 200
    assert reload(sluice)["needs_restart"] == "1", "it is still told of"


def test_inbound_places_come_change_and_go(rig, origin):
    origin.on("/x", ok())
    sluice = rig.sluice()
    port = free_port()
    plain = sluice.config.read_text()

    def place(capacity):
        sluice.config.write_text(plain + f"[inbound api]\nlisten = 127.0.0.1:{port}\nupstream = http://{origin.authority}\n"
                                         f"rate = 1/1h\ncapacity = {capacity}\n")
        reload(sluice)

    def ask(caller):
        return caller.send(b"GET /x HTTP/1.1\r\nHost: api.example\r\n\r\n").response().status

    place(2)
    kept = Caller(("127.0.0.1", port))
    assert [ask(kept) for _ in range(3)] == [200, 200, 429]
    place(4)
    assert [ask(kept) for _ in range(3)] == [200, 200, 429], "a kept connection has the new limit"
    sluice.config.write_text(plain)
    reload(sluice)
    assert not answers(("127.0.0.1", port))
    assert kept.at_end()
    kept.close()
    assert sluice.get(origin.url("/x")).status == 200


def test_reloads_one_after_another_and_at_once_end_with_the_latest(rig, origin):
    sluice = rig.sluice()
    for number in range(20):
        write(sluice, f"max_wait = {number}m" if number else "rate = 1000/s",
              f"max_wait = {number + 1}m" if number else f"rate = 1000/s\nmax_wait = {number + 1}m")
        sluice.signal(1)
    eventually(lambda: any(e["to"] == "20m" for e in sluice.events("setting_changed")))
    assert sluice.get(origin.url()).status == 200


def test_a_reload_while_it_ends_is_harmless(rig, origin):
    sluice = rig.sluice()
    assert sluice.get(origin.url()).status == 200
    sluice.signal(1)
    sluice.signal(15)
    assert sluice.exit_code() == 0


def test_files_for_tls_are_read_again(rig, tmp_path_factory):
    pki, other = Pki(rig.directory), Pki(tmp_path_factory.mktemp("other"))
    origin = rig.add(TlsOrigin(pki.issue()))
    trusted = rig.directory / "trusted.pem"
    trusted.write_bytes(pki.ca.read_bytes())
    sluice = rig.sluice(destinations={"d": {"hosts": origin.authority, "https": "originate", "ca_file": trusted}})
    kept = sluice.caller()
    assert kept.get(f"http://{origin.authority}/one").status == 200
    reload(sluice)
    assert kept.get(f"http://{origin.authority}/two").status == 200
    assert len(origin.handshakes) == 1, "nothing was different, so the connection is still good"
    trusted.write_bytes(other.ca.read_bytes())
    reload(sluice)
    assert kept.get(f"http://{origin.authority}/three").status == 502
    trusted.write_text("nothing\n")
    reload(sluice, refused=True)
    assert "ca_file" in sluice.events("reload_mistake")[0]["mistake"]
    trusted.write_bytes(pki.ca.read_bytes() + other.ca.read_bytes())
    reload(sluice)
    assert kept.get(f"http://{origin.authority}/four").status == 200


def test_thousands_of_destinations_reload_while_others_are_served(rig, origin):
    many = {f"d{n}": {"hosts": f"h{n}.example.com, *.w{n}.example.com", "rate": "7/s"} for n in range(3000)}
    sluice = rig.sluice(default={"rate": "100/s"}, destinations={"api": {"hosts": "127.0.0.1"}, **many})
    kept = sluice.caller()
    assert kept.get(origin.url()).status == 200
    write(sluice, "rate = 7/s", "rate = 8/s")
    sluice.signal(1)
    for _ in range(20):
        assert kept.get(origin.url()).status == 200
    assert sluice.wait_event("reloaded")[0]["changes"] == "3000"
    assert len(sluice.events("setting_changed")) == 1000, "the log is not flooded"
