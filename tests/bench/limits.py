"""limits.py BUILD [KEYS] - what limits beside the rate cost.

Script calls in Redis for each request of a backlog that three replicas share, and memory for each key value, here and in Redis.
"""
import os
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
KEYS = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
os.environ["SLUICE"] = os.path.join(BUILD, "sluice")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))

from origin import ok  # noqa: E402  the rig reads where the program is when it is imported
from rig import Rig, eventually, ini  # noqa: E402
from wire import request  # noqa: E402

ROUTE = "[route r]\ndestination = api\nmatch = *\nrate = 40/s\nquota = 800/1m\n"
QUOTAS = {"quota": "1000/1m, 5000/1h, 9000/1d aligned"}


def script_calls(redis):
    info = redis.command("INFO", "commandstats")
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in info.splitlines() if line.startswith("cmdstat_evalsha:"))


def calls(what, requests, keys, more="", answer_s=0.0):
    with tempfile.TemporaryDirectory() as directory, Rig(directory) as rig:
        origin, redis = rig.origin(), rig.redis()

        def slowly(peer, _request):
            time.sleep(answer_s)
            peer.send(ok())

        if answer_s:
            origin.fallback = slowly
        sections = {"api": {"hosts": origin.authority, "max_wait": "60s", "rate": "50/s", **keys}}
        fleet = [rig.sluice(ini(redis={"url": redis.url}, destinations=sections) + more) for _ in range(3)]
        eventually(lambda: fleet[-1].get(origin.url("/")).status == 200, why="the first slot")
        before = script_calls(redis)
        crowd = rig.crowd(fleet, [request("GET", origin.url(f"/{n}"), "Connection: close") for n in range(requests)])
        assert crowd.statuses() == [200] * requests
        print(f"{what:44}{(script_calls(redis) - before) / requests:6.2f} script calls a request")


def memory(what, keys):
    with tempfile.TemporaryDirectory() as directory, Rig(directory) as rig:
        origin, redis = rig.origin(), rig.redis()
        proxy = {"max_buckets": 10 * KEYS, "log_level": "error", "log_file": os.path.join(directory, "log")}
        sluice = rig.sluice(ini(redis={"url": redis.url}, proxy=proxy, destinations={
            "api": {"hosts": origin.authority, "rate": "3600/1h", "key": "header:X-Key", **keys}}))
        caller = sluice.caller()

        def used():
            return int(redis.command("INFO", "memory").split("used_memory:")[1].split()[0]), sluice.status_kb("VmRSS") * 1024

        for n in range(100):
            caller.get(origin.url("/"), f"X-Key: first {n}")
        before = used()
        for n in range(KEYS):
            assert caller.get(origin.url("/"), f"X-Key: {n}").status == 200
        there, here = [(b - a) / KEYS for a, b in zip(before, used())]
        print(f"{what:44}{here:6.0f} bytes a key here, {there:.0f} in Redis")


calls("the rate alone", 300, {})
calls("a route and four quotas", 240, QUOTAS, ROUTE)
calls("and at most 100 in flight", 240, {**QUOTAS, "max_in_flight": 100}, ROUTE)
calls("at most 4 in flight that take 0.3 s", 120, {"max_in_flight": 4}, answer_s=0.3)
memory("a bucket for each key value", {})
memory("with a quota", {"quota": "100/1h"})
