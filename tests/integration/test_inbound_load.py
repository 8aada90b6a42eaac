"""The inbound path while Redis is killed, restarted empty, stopped and flushed, with callers that never let up."""
import signal
import threading
import time

import pytest

from origin import ok
from rig import eventually
from test_inbound import Place

TIMEOUT_MS = 100
CALLERS = 8


class Load:
    """Callers that ask again and again on kept connections, each noting when it was answered, how, and after how long."""

    def __init__(self, place):
        self.place = place
        self.answers = []  # (when, status, seconds it took, RateLimit or None)
        self.failures = []
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self._call, args=(n,)) for n in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def _call(self, number):
        caller = self.place.caller()
        try:
            while not self.ended.is_set():
                began = time.monotonic()
                caller.send(f"GET /x HTTP/1.1\r\nHost: api.example\r\nX-Key: {number}\r\n\r\n".encode())
                answer = caller.response("GET")
                now = time.monotonic()
                self.answers.append((now, answer.status, now - began, answer.get("RateLimit")))
                time.sleep(0.01)
        except Exception as error:  # judged by the test
            self.failures.append(repr(error))
        finally:
            caller.close()

    def since(self, when):
        return [answer for answer in self.answers if answer[0] > when]

    def counted_again(self, when):
        """Every caller's last answers were counted in Redis again."""
        later = self.since(when)
        return len(later) >= 4 * CALLERS and all(limit is not None for *_, limit in later[-2 * CALLERS:])

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures
        return self.answers


def kill(redis):
    redis.kill()
    time.sleep(1)
    redis.start()


def restart_empty(redis):
    redis.kill()
    redis.start()


def flush_scripts(redis):
    redis.command("SCRIPT", "FLUSH")


def stop_for_five_seconds(redis):
    redis.process.signal(signal.SIGSTOP)
    time.sleep(5)
    redis.process.signal(signal.SIGCONT)


@pytest.mark.parametrize("fault", [kill, restart_empty, flush_scripts, stop_for_five_seconds])
def test_under_load_nobody_is_refused_or_held_up_by_a_fault_of_redis(rig, origin, fault, record_property):
    """on_redis_down = open: only 200s, no answer takes much longer than `timeout`, and counting is back soon after Redis is."""
    origin.on("/x", ok())
    redis = rig.redis()
    place = Place(rig, origin, f"rate = 100000/s\ncapacity = 100000\nkey = header:X-Key\ntimeout = {TIMEOUT_MS}ms", redis=redis)
    eventually(lambda: place.ask().get("RateLimit") is not None, why="counting in Redis")
    load = Load(place)
    try:
        eventually(lambda: len(load.answers) > 10 * CALLERS, why="a load")
        fault(redis)
        back = time.monotonic()
        eventually(lambda: load.counted_again(back), why="counting in Redis again")
        took = time.monotonic() - back
    finally:
        answers = load.end()
    longest = max(seconds for _, _, seconds, _ in answers)
    record_property("figures", f"{len(answers)} answers, the slowest {longest * 1000:.0f} ms, counted again after {took * 1000:.0f} ms")
    print(f"{fault.__name__}: {len(answers)} answers, slowest {longest * 1000:.0f} ms, counting again after {took * 1000:.0f} ms")
    assert {status for _, status, _, _ in answers} == {200}
    assert longest < 2, f"an answer took {longest:.2f} s"
    assert took < 3, f"counted again only after {took:.2f} s"
