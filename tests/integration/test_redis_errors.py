"""Every way a Redis that is there can be of no use, for both who depend on it: the pacer holds and stays under the rate, the
admission answers by its mode, the log names the reason once, and both go on by themselves when it is over."""
import socket
import threading

import pytest

from origin import most_in_window
from redis_rig import RedisError, Relay, Server
from rig import eventually, free_port, ini
from test_inbound import Place
from wire import request

RATE = 40
LOAD = 60


class Both:
    """A sluice that paces calls to one origin and guards an API with the same Redis."""

    def __init__(self, rig, origin, address, timeout="100ms"):
        self.rig, self.origin = rig, origin
        self.place = Place.__new__(Place)
        self.place.port, self.place.check_port = free_port(), free_port()
        text = ini(default={"rate": f"{RATE}/s", "max_wait": "60s"}, redis={"url": f"redis://{address}", "timeout": "300ms"}) + (
            f"[inbound api]\nlisten = 127.0.0.1:{self.place.port}\ncheck_listen = 127.0.0.1:{self.place.check_port}\n"
            f"upstream = http://{origin.authority}\nrate = 1000/s\ncapacity = 1000\non_redis_down = closed\ntimeout = {timeout}\n")
        self.place.sluice = self.sluice = rig.sluice(text)
        self.sluice.wait_event("redis_up")

    def admits(self):
        return self.place.check().status == 204

    def through(self, begin, end, why):
        """A load with trouble from its first third on, for as long as it takes to be noticed by both."""
        assert eventually(self.admits, why="an admission")
        crowd = self.rig.crowd([self.sluice], [request("GET", self.origin.url(f"/{n}"), "Connection: close") for n in range(LOAD)])
        self.origin.wait(LOAD // 3)
        begin()
        self.sluice.wait_event("redis_down", why=why)
        eventually(lambda: self.place.check().status == 503, why="an answer without Redis")
        assert len(self.origin.stamps()) < LOAD, "calls were held"
        end()
        assert crowd.statuses() == [200] * LOAD
        eventually(self.admits, why="an admission by Redis again")
        assert most_in_window(self.origin.stamps(), 1.0) <= RATE
        assert not self.sluice.events("redis_bad_reply")


@pytest.fixture
def server(rig):
    return Server(rig).start()


CANT_SERVE = {
    "READONLY": (lambda s: s.command("REPLICAOF", "127.0.0.1", free_port()), lambda s: s.command("REPLICAOF", "NO", "ONE")),
    "NOREPLICAS": (lambda s: s.command("CONFIG", "SET", "min-replicas-to-write", 1), lambda s: s.command("CONFIG", "SET", "min-replicas-to-write", 0)),
    "OOM": (lambda s: s.command("CONFIG", "SET", "maxmemory", 1), lambda s: s.command("CONFIG", "SET", "maxmemory", 0)),
}


@pytest.mark.parametrize("code", CANT_SERVE)
def test_a_server_that_can_not_serve_is_left_until_it_can(rig, origin, server, code):
    begin, end = CANT_SERVE[code]
    Both(rig, origin, server.address).through(lambda: begin(server), lambda: end(server), f"the server can't serve: {code}")


def test_a_server_busy_with_somebody_elses_script(rig, origin, server):
    """BUSY, or no answer in time, whichever comes first; over as soon as the script is killed."""
    server.command("CONFIG", "SET", "busy-reply-threshold", 20)
    both = Both(rig, origin, server.address)

    def run():
        try:
            server.command("EVAL", "while true do end", 0)
        except (RedisError, OSError):
            pass

    thread = threading.Thread(target=run, daemon=True)
    both.through(thread.start, lambda: server.command("SCRIPT", "KILL"), "the server can't serve: BUSY")
    thread.join()


def test_a_server_that_loads_its_data(rig, origin):
    """LOADING: it answers, but can't serve; sluice joins when it can."""
    server = Server(rig, "--dbfilename", "dump.rdb").start()
    both = Both(rig, origin, server.address)
    server.command("EVAL", "for n = 1, 1500 do redis.call('SET', 'filler:' .. n, string.rep('x', 500)) end", 0)
    server.command("SAVE")
    server.command_line += ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]

    def restart():
        server.kill()
        server.start(wait=False)

    both.through(restart, lambda: None, "SCRIPT LOAD refused: LOADING")


def test_a_server_that_forgot_the_scripts_costs_nobody_anything(rig, origin, server):
    both = Both(rig, origin, server.address)
    assert eventually(both.admits, why="an admission")
    server.command("SCRIPT", "FLUSH")
    assert both.admits() and both.sluice.get(origin.url()).status == 200
    assert len(both.sluice.events("redis_up")) == 1 and not both.sluice.events("admission_without_redis")


def test_keys_of_ours_that_hold_something_else_stop_nothing_but_themselves(rig, origin, server):
    """Admission takes its key back; a bucket of another type is named until somebody removes it, while others go on."""
    other = rig.origin()
    sluice = rig.sluice(redis={"url": f"redis://{server.address}"},
                        destinations={"spoilt": {"hosts": origin.authority}, "good": {"hosts": other.authority}})
    assert sluice.get(origin.url()).status == 200
    server.command("DEL", "sluice:{spoilt}:b")
    server.command("RPUSH", "sluice:{spoilt}:b", "x")
    caller = sluice.caller().send(request("GET", origin.url("/spoilt")))
    assert sluice.wait_event("redis_bad_reply")
    assert sluice.get(other.url()).status == 200
    assert origin.to("/spoilt") == []
    server.command("DEL", "sluice:{spoilt}:b")
    assert caller.response().status == 200
    assert len(sluice.events("redis_up")) == 1


# ---- a way to it that is no good

@pytest.fixture
def relay(rig, server):
    return Relay(rig, server.port)


def test_a_connection_that_is_half_open_is_given_up_in_time(rig, origin, relay):
    """Nothing is closed and nothing answers: the peer is gone without a word."""
    both = Both(rig, origin, relay.address)
    both.through(lambda: setattr(relay, "silent", True), lambda: setattr(relay, "silent", False), "no answer in time")


@pytest.mark.parametrize("garbage,why", [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "bytes that are not RESP"),
                                         (b"*1000000000\r\n", "reply too large"),
                                         (b"$2000000\r\n" + b"x" * 1500000, "reply too large")],
                         ids=["another protocol", "a huge array", "a huge string"])
def test_bytes_that_are_no_reply_cost_one_connection(rig, origin, relay, garbage, why):
    both = Both(rig, origin, relay.address)
    crowd = rig.crowd([both.sluice], [request("GET", origin.url(f"/{n}"), "Connection: close") for n in range(LOAD)])
    origin.wait(LOAD // 3)
    relay.garbage = garbage
    both.sluice.wait_event("redis_down", why=why)
    assert crowd.statuses() == [200] * LOAD
    eventually(both.admits, why="an admission by Redis again")
    assert most_in_window(origin.stamps(), 1.0) <= RATE


def test_a_slow_way_costs_rate_but_is_no_loss(rig, origin, relay):
    """40 ms for each answer: pacing goes on, admission with its 20 ms goes by its mode; fast again, both are as before."""
    both = Both(rig, origin, relay.address, timeout="20ms")
    eventually(both.admits, why="an admission")
    relay.delay_seconds = 0.04
    crowd = rig.crowd([both.sluice], [request("GET", origin.url(f"/{n}"), "Connection: close") for n in range(LOAD)])
    eventually(lambda: both.place.check().status == 503, why="a decision without Redis")
    assert crowd.statuses() == [200] * LOAD
    assert most_in_window(origin.stamps(), 1.0) <= RATE
    assert not both.sluice.events("redis_down")
    relay.delay_seconds = 0
    eventually(both.admits, why="an admission by Redis again")


def test_a_way_too_slow_to_be_sure_of_redis_clock_holds_and_says_so(rig, origin, relay):
    """Above 100 ms a step of that clock could hide in every exchange: nothing is sent, and the log says why."""
    both = Both(rig, origin, relay.address)
    relay.delay_seconds = 0.15
    caller = both.sluice.caller().send(request("GET", origin.url()))
    told = both.sluice.wait_event("redis_too_slow")[0]
    assert int(told["round_trip_us"]) >= 150000 > int(told["most_us"])
    assert origin.requests == []
    relay.delay_seconds = 0
    assert caller.response().status == 200


def test_a_server_that_was_never_there_joins_when_it_comes(rig, origin):
    """From the first moment both go by their modes; the server comes up later on that very port."""
    server = Server(rig)
    place = Place.__new__(Place)
    place.port = place.check_port = free_port()
    text = ini(redis={"url": f"redis://{server.address}"}) + (
        f"[inbound api]\ncheck_listen = 127.0.0.1:{place.check_port}\nrate = 10/s\non_redis_down = closed\n")
    sluice = rig.sluice(text)
    assert place.check().status == 503
    caller = sluice.caller().send(request("GET", origin.url()))
    assert caller.silent_for(0.3) and origin.requests == []
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", server.port))
    server.start()
    assert caller.response().status == 200
    eventually(lambda: place.check().status == 204, why="an admission by Redis")
