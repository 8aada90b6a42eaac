"""Redis in trouble: nothing hangs, nothing crashes, and above all nothing exceeds the rate, whatever happens to it."""
import json
import signal
import time

import pytest

from origin import most_in_window
from rig import burst, free_port
from wire import request

RATE = 40


@pytest.fixture
def redis(rig):
    return rig.redis(started=False)


def fleet(rig, redis, count=2, **more):
    return [rig.sluice(default={"rate": f"{RATE}/s", **more}, redis={"url": redis.url}) for _ in range(count)]


def served_in_spite_of(rig, origin, redis, trouble, count=70):
    """A burst over two replicas with trouble in the middle: all are served in the end, never too many at once."""
    redis.start()
    crowd = rig.crowd(fleet(rig, redis), burst(origin, count))
    origin.wait(count // 3)
    trouble()
    assert crowd.statuses() == [200] * count
    assert most_in_window(origin.stamps(), 1.0) <= RATE


def test_without_redis_at_the_start_calls_are_held_until_it_comes(rig, origin, redis):
    sluice = fleet(rig, redis, 1)[0]
    caller = sluice.caller().send(request("GET", origin.url()))
    assert caller.silent_for(0.5) and origin.requests == []
    redis.start()
    assert caller.response().status == 200


def test_a_redis_that_is_killed_and_comes_back_empty(rig, origin, redis):
    served_in_spite_of(rig, origin, redis, lambda: (redis.kill(), redis.start()))


def test_a_redis_that_freezes_for_a_while(rig, origin, redis):
    def freeze():
        redis.process.signal(signal.SIGSTOP)
        time.sleep(0.8)  # longer than a command may take
        redis.process.signal(signal.SIGCONT)

    served_in_spite_of(rig, origin, redis, freeze)


def test_a_redis_that_forgets_its_scripts(rig, origin, redis):
    served_in_spite_of(rig, origin, redis, lambda: redis.command("SCRIPT", "FLUSH"))


def test_a_redis_that_forgets_everything(rig, origin, redis):
    served_in_spite_of(rig, origin, redis, lambda: redis.command("FLUSHALL"))


def test_a_redis_that_drops_all_connections(rig, origin, redis):
    served_in_spite_of(rig, origin, redis, lambda: redis.command("CLIENT", "KILL", "TYPE", "normal"))


def test_a_redis_out_of_memory_counts_as_down_until_it_has_some(rig, origin, redis):
    def squeeze():
        redis.command("CONFIG", "SET", "maxmemory", "1")
        time.sleep(0.5)
        redis.command("CONFIG", "SET", "maxmemory", "0")

    served_in_spite_of(rig, origin, redis, squeeze)


def test_a_wrong_password_holds_calls_until_their_deadline_and_is_logged(rig, origin):
    port = free_port()
    redis = rig.redis("--port", str(port), "--requirepass", "right")
    wrong = rig.sluice(default={"max_wait": "500ms"}, redis={"url": f"redis://:wrong@127.0.0.1:{port}/0"})
    response = wrong.get(origin.url("/wrong"))
    assert response.status == 504 and origin.requests == []
    assert "WRONGPASS" in wrong.text()
    assert "wrong@" not in wrong.text()
    right = rig.sluice(redis={"url": f"redis://:right@127.0.0.1:{port}/0"})
    assert right.get(origin.url("/right")).status == 200
    assert redis.process.alive()


def test_rejecting_without_redis_is_a_503_at_once(rig, origin, redis):
    sluice = fleet(rig, redis, 1, on_redis_down="reject")[0]
    response = sluice.get(origin.url())
    assert response.status == 503 and json.loads(response.body)["reason"] == "redis_down"
    assert origin.requests == []


def test_waiting_calls_are_rejected_when_redis_goes(rig, origin, redis):
    redis.start()
    sluice = rig.sluice(default={"rate": "1/1h", "max_wait": "1d", "on_redis_down": "reject"}, redis={"url": redis.url})
    sluice.wait_event("redis_up")
    caller = sluice.caller().send(request("GET", origin.url("/waits")))
    assert caller.silent_for(0.2)
    redis.kill()
    response = caller.response()
    assert response.status == 503 and json.loads(response.body)["reason"] == "redis_down"


def test_open_without_redis_lets_calls_out_and_says_so_loudly(rig, origin, redis):
    sluice = fleet(rig, redis, 1, on_redis_down="open")[0]
    assert rig.crowd([sluice], burst(origin, 60)).statuses() == [200] * 60
    assert sluice.wait_event("pacing_off")[0]["level"] == "error"


def test_reserve_without_redis_uses_only_its_permits(rig, origin, redis):
    sluice = fleet(rig, redis, 1, on_redis_down="reserve", outage_permits="4", replicas_max="2")[0]
    assert rig.crowd([sluice], burst(origin, 10)).statuses() == [200] * 10
    assert most_in_window(origin.stamps(), 1.0) <= 4


def test_every_key_but_the_epoch_marker_expires(rig, origin, redis):
    redis.start()
    sluice = fleet(rig, redis, 1)[0]
    assert sluice.get(origin.url()).status == 200
    keys = redis.command_all("KEYS", "*")
    assert keys and all(key.startswith("sluice") for key in keys)
    for key in keys:
        assert "{" in key, "the hash tag keeps a bucket's keys on one node of a cluster"
        if not key.endswith(":e"):
            assert redis.command("PTTL", key) not in (":-1", ":-2"), key


def test_an_idle_destination_asks_redis_for_no_slots(rig, origin, redis):
    """Slots are asked for just in time and for waiting calls only."""
    redis.start()
    sluice = fleet(rig, redis, 1)[0]
    sluice.get(origin.url())
    before = calls(redis)
    caller = sluice.caller()
    for _ in range(3):
        caller.get(origin.url())
    assert calls(redis) - before <= 3 * 3 + 3


def calls(redis):
    stats = redis.command_all("INFO", "commandstats")[0]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in stats.splitlines() if line.startswith("cmdstat_evalsha"))
