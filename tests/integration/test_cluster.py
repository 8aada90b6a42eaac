"""A Redis Cluster of six: each bucket on the server that has its slot, whichever that is, and never above the rate."""
import signal

import pytest

from origin import ok
from redis_rig import OUTAGE_RATE, Cluster, Server, served_through, slot_of
from rig import eventually, free_port
from test_inbound import Place, together
from wire import request

@pytest.fixture
def cluster(rig):
    """Six servers whose clocks differ by seconds, so that nothing measured on one can pass for the other's."""
    return Cluster(rig, skews=(0, 7, -5, -3, 11, 2.5))


def fleet(rig, cluster, count=2, **more):
    replicas = [rig.sluice(default={"rate": f"{OUTAGE_RATE}/s", "max_wait": "80s", **more}, redis={"url": cluster.url}) for _ in range(count)]
    for sluice in replicas:
        sluice.wait_event("redis_up", 3)
    return replicas


def bucket_slot(cluster):
    """Where the one bucket in use is, by the key that is there."""
    slots = set()
    for server in cluster.servers:
        if server.process.alive() and server.role() == "master":
            keys = server.command("KEYS", "*}:b")
            slots |= {server.command("CLUSTER", "KEYSLOT", key) for key in keys}
    assert len(slots) == 1, slots
    return slots.pop()


def test_every_destination_goes_to_the_server_that_has_its_slot(rig, cluster):
    """A dozen destinations over three servers; each server has its share of the keys and nobody was sent on for long."""
    origins = [rig.origin() for _ in range(12)]
    sluice = rig.sluice(redis={"url": cluster.url}, destinations={f"d{n}": {"hosts": o.authority} for n, o in enumerate(origins)})
    for origin in origins:
        assert sluice.get(origin.url()).status == 200
    counts = [len(server.command("KEYS", "sluice:*}:b")) for server in cluster.primaries]
    assert counts == [sum(cluster.owner(slot_of(f"d{n}")) is server for n in range(12)) for server in cluster.primaries]
    assert sum(counts) == len(origins) and max(counts) < len(origins)
    assert "redis_bad_reply" not in sluice.text()


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_primary_that_is_gone_is_replaced_under_load(rig, origin, cluster, how):
    """Frozen: it comes back believing that it is still the primary, with calls in its sockets, and must do no harm."""
    replicas = fleet(rig, cluster)

    def lose():
        slot = bucket_slot(cluster)
        owner = cluster.owner(slot)
        others = [s for s in cluster.servers if s is not owner]
        if how == "killed":
            owner.kill()
        else:
            owner.process.signal(signal.SIGSTOP)
        eventually(lambda: all(cluster.owner(slot, s) not in (None, owner) for s in others), 30, "a replica that takes over")
        if how == "frozen":
            owner.process.signal(signal.SIGCONT)

    served_through(rig, origin, replicas, lose)


def test_a_failover_on_demand_under_load(rig, origin, cluster):
    replicas = fleet(rig, cluster)

    def fail_over():
        slot = bucket_slot(cluster)
        owner = cluster.owner(slot)
        replica = cluster.replica_of(owner)
        replica.command("CLUSTER", "FAILOVER")
        eventually(lambda: cluster.owner(slot, owner) is replica, 30, "the replica taking over")

    served_through(rig, origin, replicas, fail_over)


def test_a_slot_that_moves_under_load_and_back(rig, origin, cluster):
    """Twice to another server, which has another run id: the bucket goes on there after the quarantine of a new epoch."""
    replicas = fleet(rig, cluster)

    def move():
        slot = bucket_slot(cluster)
        old = cluster.owner(slot)
        to = next(s for s in cluster.primaries if s is not old)
        cluster.move(slot, to)
        sent = len(origin.stamps())
        eventually(lambda: len(origin.stamps()) > sent + 5, why="sending from the new server")
        cluster.move(slot, old)

    served_through(rig, origin, replicas, move)
    assert all("redis_bad_reply" not in sluice.text() for sluice in replicas)


def test_a_slot_that_is_being_moved_holds_its_bucket_until_it_has_moved(rig, origin, cluster):
    """Half of a bucket's keys here and half there: ASK and TRYAGAIN are not answers, and not errors either."""
    replicas = fleet(rig, cluster)

    def move_slowly():
        slot = bucket_slot(cluster)
        to = next(s for s in cluster.primaries if s is not cluster.owner(slot))
        old = cluster.begin_move(slot, to)
        keys = old.command("CLUSTER", "GETKEYSINSLOT", slot, 100)
        old.command("MIGRATE", "127.0.0.1", to.port, keys[0], 0, 5000)
        eventually(lambda: answers(old, to, ("ASK", "TRYAGAIN")) > 20, why="calls that meet the open slot")
        cluster.move_keys(slot, old, to)
        cluster.end_move(slot, old, to)

    served_through(rig, origin, replicas, move_slowly)
    assert all("redis_bad_reply" not in sluice.text() for sluice in replicas)


def answers(*servers_and_codes):
    *servers, codes = servers_and_codes
    total = 0
    for server in servers:
        for line in server.command("INFO", "errorstats").splitlines():
            name, _, count = line.partition(":count=")
            total += int(count) if name.removeprefix("errorstat_") in codes else 0
    return total


def test_admission_follows_moved_and_ask_without_losing_a_decision(rig, origin):
    """One key's limit moves from server to server while it is asked for; not one decision is made without Redis."""
    cluster = Cluster(rig)
    origin.on("/x", ok())
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 50\nkey = header:X-Key\non_redis_down = closed\ntimeout = 1s", redis=cluster)
    place.sluice.wait_event("redis_up", 3)

    def ask(count):
        return together([lambda: place.ask("/x", "X-Key: a")] * count)

    assert ask(10) == {200: 10}
    slot = slot_of("api")
    to = next(s for s in cluster.primaries if s is not cluster.owner(slot))
    old = cluster.begin_move(slot, to)
    assert ask(10) == {200: 10}, "the key is still here"
    cluster.move_keys(slot, old, to)
    assert ask(10) == {200: 10}, "ASK is followed"
    assert answers(old, ("ASK",)) >= 10
    cluster.end_move(slot, old, to)
    assert ask(10) == {200: 10}, "MOVED is followed"
    assert answers(old, ("MOVED",)) >= 1
    assert ask(20) == {200: 10, 429: 10}, "nothing was forgotten and nothing counted twice"
    assert not place.sluice.events("admission_without_redis")


def test_admission_goes_on_with_the_server_that_takes_over(rig, origin):
    """Decisions about one slot need one server: the others' go on meanwhile, its own are by the mode until another has it."""
    origin.on("/x", ok())
    cluster = Cluster(rig)
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 5\nkey = header:X-Key\non_redis_down = closed\ntimeout = 1s", redis=cluster)
    place.sluice.wait_event("redis_up", 3)
    assert together([lambda: place.ask("/x", "X-Key: a")] * 8) == {200: 5, 429: 3}
    owner = cluster.owner(slot_of("api"))
    owner.kill()
    eventually(lambda: place.ask("/x", "X-Key: b").status == 503, why="decisions without Redis")
    eventually(lambda: place.ask("/x", "X-Key: b").status == 200, why="decisions by the server that took over")
    assert place.ask("/x", "X-Key: a").status == 429, "it had what was counted"


def test_several_limits_of_one_request_wait_until_their_slot_has_moved(rig, origin):
    """A script's keys half here and half there: TRYAGAIN, which is a decision by the mode and not one about half of the limits."""
    origin.on("/x", ok())
    cluster = Cluster(rig)
    rule = "[inbound-rule more]\ninbound = api\nrate = 1/1h\ncapacity = 50\nkey = header:X-More\n"
    place = Place(rig, origin, "rate = 1/1h\ncapacity = 50\nkey = header:X-Key\non_redis_down = closed\ntimeout = 1s", rule, redis=cluster)
    place.sluice.wait_event("redis_up", 3)
    assert place.ask("/x", "X-Key: a", "X-More: b").status == 200
    slot = slot_of("api")
    to = next(s for s in cluster.primaries if s is not cluster.owner(slot))
    old = cluster.begin_move(slot, to)
    keys = old.command("CLUSTER", "GETKEYSINSLOT", slot, 100)
    assert len(keys) == 2
    old.command("MIGRATE", "127.0.0.1", to.port, keys[0], 0, 5000)
    assert place.ask("/x", "X-Key: a", "X-More: b").status == 503
    cluster.move_keys(slot, old, to)
    cluster.end_move(slot, old, to)
    eventually(lambda: place.ask("/x", "X-Key: a", "X-More: b").status == 200, why="decisions by Redis")
    assert not place.sluice.events("admission_odd")


def test_a_cluster_that_is_down_holds_and_goes_on_when_it_is_whole(rig, origin, cluster):
    """The server of the bucket stands alone: it answers CLUSTERDOWN, and nothing is sent until the cluster is whole again."""
    sluice = fleet(rig, cluster, 1)[0]
    assert sluice.get(origin.url()).status == 200
    owner = cluster.owner(bucket_slot(cluster))
    killed = [s for s in cluster.servers if s is not owner]
    for server in killed:
        server.kill()
    eventually(lambda: owner.command("CLUSTER", "INFO").startswith("cluster_state:fail"), 30, "a server that knows it is alone")
    caller = sluice.caller().send(request("GET", origin.url("/held")))
    assert sluice.wait_event("redis_down", why="the server can't serve: CLUSTERDOWN")
    assert caller.silent_for(0.3) and origin.to("/held") == []
    for server in killed:
        server.start()
    assert caller.response().status == 200


def test_without_a_cluster_at_the_start_calls_are_held_until_it_comes(rig, origin):
    """Seeds that are not there, that are no cluster, and that have no slots yet: each is named, and then it joins."""
    alone = Server(rig).start()
    empty = Server(rig, "--cluster-enabled", "yes", "--cluster-port", free_port()).start()
    sluice = rig.sluice(redis={"url": f"cluster://{alone.address}"})
    sluice.wait_event("redis_cluster_unknown", why=f"cluster server {alone.address}: CLUSTER SLOTS refused (is it one of a cluster?): ERR")
    sluice = rig.sluice(redis={"url": f"cluster://{alone.address},{empty.address}"})
    sluice.wait_event("redis_cluster_unknown", why=f"cluster server {empty.address}: knows no server that has any slots")
    caller = sluice.caller().send(request("GET", origin.url()))
    assert caller.silent_for(0.3) and origin.requests == []
    empty.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    assert caller.response().status == 200


def test_a_server_of_a_cluster_behind_a_plain_url_is_named(rig, origin, cluster):
    label = next(f"d{n}" for n in range(99) if cluster.owner(slot_of(f"d{n}")) is not cluster.primaries[0])
    sluice = rig.sluice(redis={"url": f"redis://{cluster.primaries[0].address}"},
                        destinations={label: {"hosts": origin.authority, "max_wait": "1s"}})
    assert sluice.get(origin.url()).status == 504
    sluice.wait_event("redis_down", why="the server is one of a cluster; write cluster://HOST[,HOST] as url")
