"""The classic check of a limiter: capacity 10, 20 curls at once, fifty times in a row; by one process, and by three behind a
balancer that deals them out in turn."""
import collections
import shutil
import subprocess

import pytest

from origin import ok
from rig import eventually, free_port
from test_gateways import Gateway, program
from test_inbound import Place

ROUNDS = 50
API = "rate = 1/1h\ncapacity = 10\nkey = header:X-Key\ntimeout = 2s"


def curls(port, key):
    """Twenty transfers of one curl, each on a connection of its own, all begun before the first is answered."""
    curl = shutil.which("curl") or pytest.skip("curl is not installed")
    command = [curl, "-s", "-Z", "--parallel-immediate", "--parallel-max", "20", "--noproxy", "*", "-H", f"X-Key: {key}",
               "-w", "%{http_code}\n", f"http://127.0.0.1:{port}/x?[1-20]", "-o", "/dev/null"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return collections.Counter(line[-3:] for line in found.stdout.split())


def test_twenty_curls_find_ten_places_fifty_times(rig, origin):
    origin.on("/x", ok())
    place = Place(rig, origin, API)
    for number in range(ROUNDS):
        assert curls(place.port, number) == {"200": 10, "429": 10}, f"round {number}"
    assert len(origin.to("/x")) == 10 * ROUNDS


def test_twenty_curls_find_ten_places_in_three_replicas_fifty_times(rig, origin, tmp_path):
    origin.on("/x", ok())
    binary, port, redis = program("haproxy"), free_port(), rig.redis()
    places = [Place(rig, origin, API, redis=redis) for _ in range(3)]
    for place in places:
        eventually(lambda p=place: p.ask("/x", "X-Key: probe").get("RateLimit") is not None, why="counting in Redis")
    before = len(origin.to("/x"))
    servers = "".join(f"  server s{n} 127.0.0.1:{place.port}\n" for n, place in enumerate(places))
    (tmp_path / "haproxy.cfg").write_text(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n"
        f"listen api\n  bind 127.0.0.1:{port}\n  balance roundrobin\n{servers}")
    rig.add(Gateway([binary, "-db", "-f", f"{tmp_path}/haproxy.cfg"], port, tmp_path))
    for number in range(ROUNDS):
        assert curls(port, number) == {"200": 10, "429": 10}, f"round {number}"
    assert len(origin.to("/x")) - before == 10 * ROUNDS
    served = [len(place.sluice.events("access")) for place in places]
    assert min(served) >= 20 * ROUNDS // 3 - 20, f"the balancer dealt unevenly: {served}"
