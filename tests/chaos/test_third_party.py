"""What third parties do to us: slow handshakes, connections that die, and the word to stop."""
import random
import threading

import pytest

from fleet import S, Fleet, at_least, eventually, now, sleep_until, stretch
from origin import ok, reply
from pki import Pki
from third_party import Scripted, SlowTls


@pytest.mark.parametrize("seconds", [20, pytest.param(5, marks=pytest.mark.quick)])
def test_slow_handshakes_happen_before_the_slot(rig, figures, seconds):
    """120 ms for each, and a new connection for every request."""
    pki = Pki(rig.directory)
    third = rig.add(SlowTls(pki.issue(), 0.12))
    third.fallback = reply(ok(b"ok", "Connection: close"), close=True)
    fleet = Fleet(rig, "10/s", third_party=third, https="originate", ca_file=str(pki.ca))
    fleet.load(20)
    fleet.flowing()
    used = at_least(0.95, fleet, stretch(fleet, seconds))
    figures(most=fleet.strict(), of=10, used=used, handshakes=len(third.handshakes))


def test_a_retry_on_a_connection_that_died_takes_its_own_slot(rig, figures):
    """One in five is lost on a connection that the third party closes at the same moment; others it closes while they are idle."""
    third, dice = rig.add(Scripted()), random.Random(7)

    def answer_or_leave(peer, request):
        peer.read_body(request)
        if dice.random() < 0.2:
            peer.close()
            return
        peer.send(ok())
        peer.sock.settimeout(dice.uniform(0.1, 1.0))  # then it is closed

    third.fallback = answer_or_leave
    fleet = Fleet(rig, "20/s", third_party=third, retry="safe", retry_max="10")
    fleet.load(20, 80)
    fleet.flowing()
    used = at_least(0.93, fleet, stretch(fleet, 8))
    for load in fleet.loads:
        assert load.exit_code(40) == 0, "a request was not answered with 200"
    stamps = fleet.stamps()
    figures(most=fleet.strict(), of=20, used=used, requests=240, arrivals=len(stamps), slots_used=fleet.slots("used"), late=fleet.slots("late"))
    assert len(stamps) > 240 and fleet.slots("used") - fleet.slots("returned") == len(stamps), "an attempt without a slot"


@pytest.mark.quick
def test_a_429_to_one_replica_stops_all(rig, figures):
    """Those on their way may still come: one of each replica."""
    third, throttled, once = rig.add(Scripted()), [], threading.Lock()

    def stop_after_thirty(peer, request):
        peer.read_body(request)
        with once:
            stops = len(third.requests) >= 30 and not throttled
            if stops:
                throttled.append(now())
        peer.send(ok(b"no", "Retry-After: 3", status="429 Too Many Requests") if stops else ok())

    third.fallback = stop_after_thirty
    fleet = Fleet(rig, "20/s", third_party=third)
    fleet.load(30)
    fleet.flowing()
    told = eventually(lambda: throttled, why="the 429")[0]
    sleep_until(told + 3 * S)
    further = fleet.stamps(told + 1_000_000, told + 3 * S)
    after = fleet.wait_arrivals(25, since=told + 3 * S)
    first_second = sum(at < after[0] + S for at in after)
    figures(most=fleet.strict(), of=20, came_in_spite_of_it=len(further), in_the_first_second_after=first_second)
    assert len(further) <= 1 + 2 and first_second <= 20
