"""Where operators look and act: health, metrics, status, verbs, and who may."""
import json
import shutil
import socket
import subprocess
import threading
import time

import pytest
from oncall import Admin, api, ask_away, operated
from origin import ok, reply
from rig import eventually, free_port, ini, with_file

SLOW = {"rate": "1/2s", "max_wait": "100s"}


def test_health_and_readiness_are_told_to_anybody_and_name_what_is_wrong(rig):
    redis = rig.redis()
    admin = operated(rig, "0123456789abcdef\n", redis={"url": redis.url})
    assert admin.get("/healthz")[::2] == (200, "ok\n")
    eventually(lambda: admin.get("/readyz")[0] == 200, why="readiness")
    redis.kill()
    eventually(lambda: admin.get("/readyz")[::2] == (503, "redis is out of reach\n"), why="the reason")
    assert admin.get("/healthz")[0] == 200


def test_nothing_but_loopback_is_listened_on_without_a_token(rig):
    settings = ini({"listen": f"127.0.0.1:{free_port()}"})
    said = with_file(rig.directory, settings + "[admin]\nlisten = 0.0.0.0:3129\n", "--check")
    assert said.returncode == 2 and "0.0.0.0:3129 can be reached from outside: set token_file" in said.stderr
    (rig.directory / "short").write_text("short\n")
    bad = with_file(rig.directory, settings + f"[admin]\nlisten = 127.0.0.1:{free_port()}\ntoken_file = {rig.directory}/short\n")
    assert bad.returncode != 0 and "16 to 512 visible characters" in bad.stderr


def test_a_token_is_asked_for_and_its_name_is_in_the_log(rig, origin):
    admin = operated(rig, "# who may\nann 0123456789abcdef\nbob fedcba9876543210\n", destinations=api(origin))
    for path in ("/status.json", "/metrics", "/events"):
        code, headers, _ = admin.get(path)
        assert code == 401 and headers["WWW-Authenticate"].startswith("Bearer")
        assert admin.get(path, Authorization="Bearer 0123456789abcdeg")[0] == 401
    assert admin.ask("POST", "/control/pause", {"destination": "api"})[0] == 401
    admin.token = "fedcba9876543210"
    assert admin.order("pause", destination="api", seconds=60)[0] == 200
    admin.sluice.wait_event("control", verb="pause", destination="api", client="bob@127.0.0.1")
    assert admin.get("/status.json", Host="ops.example:1")[0] == 200  # whoever has the token is no site's page
    assert not [line for line in admin.sluice.lines if "fedcba9876543210" in line or "0123456789abcdef" in line]


def test_metrics_are_what_prometheus_expects(rig, origin):
    promtool = shutil.which("promtool")
    redis = rig.redis()
    admin = operated(rig, destinations=api(origin), redis={"url": redis.url})
    for number in range(3):
        assert admin.sluice.get(origin.url(f"/{number}")).status == 200
    text = admin.metrics()
    assert 'sluice_requests_total{destination="api",verdict="forwarded",status="2xx"} 3' in text
    assert 'sluice_slots_total{destination="api",outcome="used"} 3' in text
    assert 'sluice_release_lateness_seconds_count{destination="api"} 3' in text
    assert 'sluice_wait_seconds_count{destination="api"} 3' in text
    assert 'sluice_upstream_seconds_count{destination="api"} 3' in text
    assert 'sluice_window_limit{destination="api"} 1000' in text
    assert "sluice_redis_round_trip_seconds_bucket" in text and 'sluice_upstream_connections{state="idle"}' in text
    assert eventually(lambda: admin.metric("sluice_replicas") == 1, why="the replica counting itself")
    if promtool is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and checked.stdout + checked.stderr == "", checked.stderr


def test_connections_in_use_are_counted_and_none_is_left_when_all_is_over(rig, origin):
    gate = origin.gate()

    def wait(peer, request):
        peer.read_body(request)
        gate.wait(30)
        peer.send(ok())

    url = origin.on("/held", wait)
    origin.on("/dies", reply(b"", close=True))
    admin = operated(rig, destinations=api(origin, rate="100/s"))
    threads, _ = ask_away(admin.sluice, url, 3)
    admin.when("api", lambda row: row["connections"] == 3 and row["in_flight"] == 3)
    assert admin.metric('sluice_connections{destination="api"}') == 3
    gate.set()
    for thread in threads:
        thread.join(10)
    assert admin.sluice.get(origin.url("/dies")).status == 502
    for _ in range(3):
        assert admin.sluice.get(origin.url("/")).status == 200
    admin.when("api", lambda row: row["connections"] == 0 and row["in_flight"] == 0)


def test_hosts_and_keys_never_become_labels(rig, origin):
    admin = operated(rig, default={"rate": "1000/s"}, destinations=api(origin, key="header:X-Key"))
    for number in range(5):
        assert admin.sluice.get(origin.url("/"), f"X-Key: secret{number}").status == 200
    series = [line for line in admin.metrics().splitlines() if "destination=" in line]
    assert {line.split('destination="')[1].split('"')[0] for line in series} == {"api", "default", "-"}
    row = admin.destination("api")
    assert row["arrived"] == row["released"] == 5  # the parts' doings are the whole's
    assert "secret" not in admin.get("/status.json")[2]


def test_what_leaves_by_several_routes_counts_against_the_rate_of_the_whole(rig, origin):
    routes = "".join(f"[route {name}]\ndestination = api\nmatch = /{name}/*\nrate = 100/s\n" for name in ("a", "b"))
    admin = Admin(rig.sluice(ini(destinations=api(origin, rate="20/s", max_wait="60s")) + routes + "[admin]\nlisten = 127.0.0.1:0\n"))
    threads = [thread for name in ("a", "b") for thread in ask_away(admin.sluice, origin.url(f"/{name}/"), 15)[0]]
    for thread in threads:
        thread.join(20)
    row = admin.destination("api")
    assert row["released"] == 30 and 15 < row["most_in_window"] <= 20  # neither route alone sent that many
    assert row["waiting"] == 0 and row["rate"]["count"] == 20


@pytest.mark.parametrize("verb", ["pause", "resume", "set-rate", "purge", "drain", "reload", "log-level"])
def test_no_verb_is_done_by_get(rig, verb):
    admin = operated(rig)
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        code, headers, _ = admin.ask(method, f"/control/{verb}")
        assert (code, headers["Allow"]) == (405, "POST")


def test_what_another_sites_page_could_send_is_refused(rig, origin):
    admin = operated(rig, destinations=api(origin))
    body = json.dumps({"destination": "api"})
    for headers in ({"Content_Type": "text/plain"}, {"Content_Type": "application/x-www-form-urlencoded"}, {},
                    {"Content_Type": "application/json", "Origin": "http://evil.example"},
                    {"Content_Type": "application/json", "Origin": "null"},
                    {"Content_Type": "application/json", "Sec_Fetch_Site": "cross-site"},
                    {"Content_Type": "application/json", "Sec_Fetch_Site": "same-site"}):
        assert admin.ask("POST", "/control/pause", body, **headers)[0] == 403
    assert admin.destination("api")["paused_us"] == 0
    assert admin.ask("POST", "/control/pause", body, Content_Type="application/json", Origin=admin.url)[0] == 200


def test_a_name_that_was_bound_to_this_address_gets_nothing(rig):
    admin = operated(rig)
    for path in ("/status.json", "/metrics", "/events"):
        assert admin.get(path, Host="rebound.example")[0] == 403
        assert admin.get(path, Host=f"rebound.example:{admin.address[1]}")[0] == 403
    assert admin.ask("POST", "/control/drain", {}, Host="rebound.example")[0] == 403
    assert admin.get("/status.json", Host=f"localhost:{admin.address[1]}")[0] == 200


def test_what_is_asked_wrongly_is_told_what_would_be_right(rig, origin):
    admin = operated(rig, destinations=api(origin))
    for verb, body, word in [("pause", {}, "send"), ("pause", {"destination": "api", "second": 5}, "send"),
                             ("pause", {"destination": "api", "seconds": 3601}, "1 to 3600"),
                             ("set-rate", {"destination": "api", "rate": "0/s"}, "COUNT/PERIOD"),
                             ("set-rate", {"destination": "api", "rate": "10"}, "COUNT/PERIOD"),
                             ("set-rate", {"destination": "api", "rate": "10/s", "seconds": 0}, "604800"),
                             ("log-level", {"level": "loud"}, "debug"), ("drain", {"now": 1}, "send {}")]:
        code, answer = admin.order(verb, **body)
        assert code == 400 and word in answer["detail"], (verb, body, answer)
    code, answer = admin.order("pause", destination="nobody")
    assert code == 404 and "nobody" in answer["detail"]
    assert admin.order("explode")[0] == 404
    assert admin.ask("POST", "/control/pause", "[1]", Content_Type="application/json")[0] == 400
    assert admin.ask("POST", "/control/pause", "x" * 5000, Content_Type="application/json")[0] == 413
    assert admin.get("/nothing")[0] == 404
    assert admin.ask("POST", "/metrics", {})[0] == 405


def test_a_rate_below_what_is_kept_for_outages_is_refused(rig):
    redis = rig.redis()
    admin = operated(rig, redis={"url": redis.url}, destinations={
        "api": {"rate": "100/s", "on_redis_down": "reserve", "outage_permits": "5", "replicas_max": "2"}})
    assert admin.order("set-rate", destination="api", rate="10/s")[0] == 409
    assert admin.order("set-rate", destination="api", rate="11/s")[0] == 200


def test_three_replicas_pause_resume_and_change_a_rate_within_a_second(rig, origin):
    redis = rig.redis()
    fleet = [operated(rig, redis={"url": redis.url}, destinations=api(origin, rate="100/s", max_wait="1h")) for _ in range(3)]
    for admin in fleet:
        eventually(lambda a=admin: a.status()["fleet"]["replicas"] == 3, why="three replicas")

    def everywhere(name, condition, began):
        for admin in fleet:
            admin.when(name, condition)
        assert time.monotonic() - began < 3  # a second, and what a busy machine takes

    began = time.monotonic()
    code, answer = fleet[0].order("pause", destination="api", seconds=600)
    assert code == 200 and answer["everywhere"] and answer["replicas"] == 3
    everywhere("api", lambda row: row["paused_us"] > 590e6, began)
    threads, statuses = ask_away(fleet[2].sluice, origin.url("/held"))
    fleet[2].when("api", lambda row: row["waiting"] == 1)
    began = time.monotonic()
    assert fleet[1].order("resume", destination="api")[0] == 200
    everywhere("api", lambda row: row["paused_us"] == 0, began)
    threads[0].join(5)
    assert statuses == [200]

    began = time.monotonic()
    assert fleet[2].order("set-rate", destination="api", rate="7/1m", seconds=600)[0] == 200
    everywhere("api", lambda row: row["rate"] == {"count": 7, "period_us": 60_000_000}, began)
    order = fleet[0].status()["fleet"]["orders"]
    assert [(it["verb"], it["destination"], it["by"]) for it in order] == [("rate", "api", "127.0.0.1")]
    late = operated(rig, redis={"url": redis.url}, destinations=api(origin, rate="100/s"))
    late.when("api", lambda row: row["rate"]["count"] == 7)  # one that comes later follows too
    began = time.monotonic()
    assert fleet[0].order("set-rate", destination="api", rate="configured")[0] == 200
    everywhere("api", lambda row: row["rate"] == {"count": 100, "period_us": 1_000_000}, began)
    for admin in fleet:
        admin.sluice.wait_event("order", verb="rate", destination="api", by="127.0.0.1")
        assert not admin.sluice.events("limits_differ")  # they changed at nearly the same time, and nobody shouts about that


def test_an_ordered_rate_ends_by_itself_also_without_redis(rig, origin):
    redis = rig.redis()
    admin = operated(rig, redis={"url": redis.url}, destinations=api(origin, rate="100/s"))
    eventually(lambda: admin.get("/readyz")[0] == 200, why="readiness")
    assert admin.order("set-rate", destination="api", rate="7/1m", seconds=2)[0] == 200
    assert admin.destination("api")["rate"]["count"] == 7
    redis.kill()
    admin.when("api", lambda row: row["rate"]["count"] == 100)
    admin.sluice.wait_event("order_over", destination="api")
    code, answer = admin.order("set-rate", destination="api", rate="7/1m")
    assert code == 503 and "nothing was changed" in answer["detail"]
    code, answer = admin.order("pause", destination="api", seconds=60)
    assert code == 200 and not answer["everywhere"] and "this replica only" in answer["detail"]
    assert admin.destination("api")["paused_us"] > 0


def test_waiters_keep_their_places_when_the_rate_changes(rig, origin):
    admin = operated(rig, destinations=api(origin, rate="1/2s", max_wait="1h"))
    assert admin.sluice.get(origin.url("/first")).status == 200
    threads, statuses = ask_away(admin.sluice, origin.url("/waits"), 30)
    admin.when("api", lambda row: row["waiting"] == 30)
    assert admin.order("set-rate", destination="api", rate="100/s")[0] == 200
    for thread in threads:
        thread.join(20)  # a minute, with the rate from before
    assert statuses == [200] * 30
    assert admin.destination("api")["most_in_window"] <= 100


def test_a_purge_refuses_who_waits_in_one_queue_or_in_all_of_a_destination(rig, origin):
    admin = operated(rig, destinations=api(origin, key="header:X-Key", **SLOW))
    answers = []

    def call(key):
        answers.append(admin.sluice.get(origin.url("/"), f"X-Key: {key}"))

    threads = [threading.Thread(target=call, args=(key,), daemon=True) for key in "aaaabbb"]
    for thread in threads:
        thread.start()
    admin.when("api", lambda row: row["released"] == 2 and row["waiting"] == 5)
    parts = {it["name"]: it for it in admin.status()["destinations"] if it["kind"] == "part"}
    assert sorted(it["waiting"] for it in parts.values()) == [2, 3]
    fuller = max(parts, key=lambda name: parts[name]["waiting"])
    assert admin.order("purge", bucket=fuller)[0] == 200
    eventually(lambda: len([a for a in answers if a.status == 503]) >= 2, why="the refusals")
    problem = json.loads(next(a for a in answers if a.status == 503).body)
    assert problem["reason"] == "purged" and problem["destination"] == "api"
    assert admin.order("purge", destination="api")[0] == 200
    for thread in threads:
        thread.join(10)
    assert len(answers) == 7 and admin.metric('sluice_unserved_total{destination="api",reason="purged"}') >= 3
    admin.when("api", lambda row: row["waiting"] == 0)


def test_a_pause_holds_parts_that_are_new_and_hosts_without_a_section(rig, origin):
    admin = operated(rig, default={"rate": "100/s", "max_wait": "1h"}, destinations={"other": {}})
    assert admin.order("pause", destination="default", seconds=600)[0] == 200
    assert admin.destination("default")["paused_us"] > 590e6
    assert admin.order("set-rate", destination="default", rate="50/s")[0] == 200
    assert admin.destination("default")["rate"]["count"] == 50
    threads, statuses = ask_away(admin.sluice, origin.url("/"))
    admin.when("default", lambda row: row["waiting"] == 1)
    admin.when("default:127.0.0.1", lambda row: row["paused_us"] > 0 and row["kind"] == "host")
    assert statuses == []
    assert admin.order("resume", destination="default:127.0.0.1")[0] == 200
    threads[0].join(10)
    assert statuses == [200]


def test_draining_and_the_log_level_are_this_process_own(rig, origin):
    admin = operated(rig, destinations=api(origin))
    assert admin.order("log-level", level="debug")[0] == 200
    assert admin.status()["log_level"] == "debug"
    admin.sluice.get(origin.url("/"))
    admin.sluice.wait_event("exchange")
    assert admin.order("drain")[0] == 200
    assert admin.sluice.exit_code() == 0
    assert admin.sluice.events("control")[-1]["verb"] == "drain"


def test_the_page_stands_alone_and_its_policy_allows_nothing_else(rig):
    admin = operated(rig, "0123456789abcdef\n")
    code, headers, page = admin.get("/")
    policy = headers["Content-Security-Policy"]
    assert code == 200 and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert "https://" not in page and 'src="' not in page.replace('src="data:', "")


def read_events(sock, wanted):
    text = b""
    while text.count(wanted) < 3:
        data = sock.recv(65536)
        assert data, text
        text += data
    return text


def test_events_come_every_second_and_who_hangs_up_is_forgotten(rig, origin):
    admin = operated(rig, destinations=api(origin))
    for _ in range(20):  # more than may watch at once, one after another
        with socket.create_connection(admin.address, 10) as sock:
            sock.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"200 OK" in sock.recv(65536)
    with socket.create_connection(admin.address, 10) as sock:
        sock.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        text = read_events(sock, b"event: status\n")
    assert b"event: history\n" in text and b"text/event-stream" in text


def test_who_hangs_up_before_an_order_is_confirmed_breaks_nothing(rig, origin):
    redis = rig.redis()
    admin = operated(rig, redis={"url": redis.url, "timeout": "5s"}, destinations=api(origin))
    eventually(lambda: admin.get("/readyz")[0] == 200, why="readiness")
    redis.process.signal(19)
    body = b'{"destination": "api", "seconds": 60}'
    with socket.create_connection(admin.address, 10) as sock:
        sock.sendall(b"POST /control/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        admin.sluice.wait_event("control", verb="pause")
    redis.process.signal(18)
    admin.when("api", lambda row: row["paused_us"] > 0)


def test_the_busiest_callers_are_named(rig, origin):
    admin = operated(rig)
    for _ in range(3):
        admin.sluice.get(origin.url("/"))
    assert admin.status()["busiest"]["callers"] == [{"name": "127.0.0.1", "requests": 3}]


def test_everything_else_goes_on_while_thousands_of_destinations_are_told(rig):
    admin = operated(rig, destinations={f"host{number}.example": {} for number in range(3000)})
    for path in (b"/metrics", b"/status.json"):
        with socket.create_connection(admin.address, 10) as sock:
            sock.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert admin.get("/healthz")[0] == 200
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.recv(1)  # its answer is not there yet, and nobody had to wait for it
            sock.setblocking(True)
            text = b""
            while data := sock.recv(1 << 20):
                text += data
        assert text.count(b"host2999.example") >= 1 and text.count(b"host0.example") >= 1


def test_two_admins_listen_at_once(rig):
    sluice = rig.sluice(ini() + "[admin]\nlisten = 127.0.0.1:0, [::1]:0\n")
    addresses = [event["address"] for event in sluice.wait_event("admin", 2)]
    assert len(addresses) == 2 and any("::1" in address for address in addresses)
    assert Admin(sluice).get("/healthz")[0] == 200
