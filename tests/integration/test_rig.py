"""The rig judges the program, so it is judged first: what it sends, sees and counts, without any proxy."""
import time

import pytest

from origin import most_in_window, ok, reply
from rig import Crowd, ini, log_fields
from wire import Caller, Ended, chunk, request


def test_the_origin_keeps_what_came_and_when(origin):
    before = time.time()
    response = Caller(origin.address).send(b"POST /a?b HTTP/1.1\r\nX-a: 1\r\nx-A:  2\r\nContent-Length: 3\r\n\r\nabc").response()
    assert (response.status, response.body) == (200, b"ok")
    seen = origin.wait(1)[0]
    assert (seen.path, seen.target, seen.body, seen.headers[:2]) == ("/a", "/a?b", b"abc", [("X-a", "1"), ("x-A", "2")])
    assert before - 0.01 <= seen.arrived <= time.time()


def test_arrival_is_stamped_by_the_kernel_and_not_when_it_is_read(origin):
    gate = origin.gate()
    origin.on_connect = lambda peer: gate.wait()
    caller = Caller(origin.address).send(request("GET", origin.url()))
    sent = time.time()
    time.sleep(0.3)
    gate.set()
    caller.response()
    assert abs(origin.requests[0].arrived - sent) < 0.2


def test_chunks_trailers_and_interim_responses_are_read(origin):
    origin.fallback = reply(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                            chunk(b"ab") + chunk(b"c") + b"0\r\nX-T: 1\r\n\r\n")
    response = Caller(origin.address).get(origin.url())
    assert ([i.status for i in response.interim], response.body, response.trailers) == ([103], b"abc", [("X-T", "1")])


@pytest.mark.parametrize("end", ["close", "reset"])
def test_an_answer_cut_short_is_noticed(origin, end):
    origin.fallback = lambda peer, _: (peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), getattr(peer, end)())
    with pytest.raises(Ended):
        Caller(origin.address).get(origin.url())


def test_a_window_is_half_open():
    assert most_in_window([0.0, 0.5, 1.0], 1.0) == 2
    assert most_in_window([0.0, 0.5, 0.999], 1.0) == 3
    assert most_in_window([], 1.0) == 0


def test_a_crowd_reads_every_answer(origin):
    origin.on("/no", reply(ok(b"", status="404 Not Found"), close=True))
    origin.on("/gone", lambda peer, _: peer.reset())
    origin.fallback = reply(ok(), close=True)
    crowd = Crowd([origin.address], [b"GET %s HTTP/1.1\r\n\r\n" % path for path in (b"/", b"/no", b"/gone", b"/")])
    assert crowd.statuses() == [200, 404, None, 200]


def test_log_lines_of_both_forms_are_read():
    assert log_fields('a=1 b="two \\"2\\"" c= d=x?y') == {"a": "1", "b": 'two "2"', "c": "", "d": "x?y"}
    assert log_fields('{"a":"1","b":2}') == {"a": "1", "b": 2}


def test_settings_are_written_section_by_section():
    assert "[proxy]\nlisten = 127.0.0.1:0\n" in ini()
    assert ini(destinations={"x": {"rate": "1/s"}}).endswith("[destination x]\nrate = 1/s\n\n")


def test_redis_starts_answers_and_starts_again(rig):
    redis = rig.redis()
    assert redis.command("SET", "a", "1") == "+OK"
    assert redis.command_all("KEYS", "*") == ["a"]
    redis.kill()
    assert redis.start().command_all("KEYS", "*") == []
