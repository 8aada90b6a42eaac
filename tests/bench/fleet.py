"""fleet.py BUILD [JSON] - the table of the fleet: 1 to 5000 per second, through 1, 3 and 12 replicas that share one Redis.

Each cell is a fleet of its own: first with one request every two intervals or so, then with full queues. Cells of low rates, which
mostly wait, run side by side; those from 100 per second on run alone. Exit 1 when a window held too many.

    most      arrivals in the fullest half-open window, wherever it begins (stamped by the kernel); above N is a breach
    used      share of the rate that a backlog gets
    gap       smallest time between two arrivals; slots are `slot` apart
    calls     scripts run in Redis for each request, everything counted, under backlog
    idle      what a lone request waits longer than one sent straight to the third party: the middle one, and the 99th of 100
    jain      1 = all replicas got the same share, 1/n = one got all
    waited    the time that replicas and Redis were ready to run and did not get a processor, which is what a busy machine adds

BENCH_CELLS="1x3 1000x12"   only those
"""
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
os.environ["SLUICE"], os.environ["RIG"] = str(BUILD / "sluice"), str(BUILD / "rig")
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "chaos")]

# pylint: disable=wrong-import-position
from fleet import MS, S, Fleet, Machine, jain, now, sleep_until, smallest_gap, used  # noqa: E402
from origin import most_in_window  # noqa: E402
from rig import Rig  # noqa: E402
from wire import Caller  # noqa: E402

RATES, REPLICAS = (1, 10, 100, 1000, 5000), (1, 3, 12)
LOADED_SECONDS = {1: 36, 10: 24, 100: 10, 1000: 8, 5000: 8}
IDLE_REQUESTS = {1: 12, 10: 60, 100: 150, 1000: 200, 5000: 200}
STRAIGHT = "/straight"  # requests that no replica sees
HEADING = ("N /s", "replicas", "most", "used %", "gap min ms", "slot ms", "calls", "idle p50 ms", "idle p99 ms", "jain", "late", "waited %")


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def timed(caller, url):
    sent = now()
    assert caller.get(url).status == 200
    return now() - sent


def idle(fleet, count, interval):
    """Round the replicas, so that each has a connection of its own kept open; (added p50, added p99). A fleet that has just begun listens
    for a while, which is no matter of waiting for slots."""
    sleep_until(now() + int(fleet.interval) + 3 * S // 2)
    callers = [Caller(sluice.address) for sluice in fleet.replicas]
    host, port = fleet.third_party.authority.split(":")
    straight, direct, through, begun = Caller((host, int(port))), [], [], now()
    url, straight_url = fleet.third_party.url("/idle"), fleet.third_party.url(STRAIGHT)
    for number in range(count):
        sleep_until(begun + int(number * interval))
        through.append(timed(callers[number % len(callers)], url))
        direct.append(timed(straight, straight_url))
    for caller in [*callers, straight]:
        caller.close()
    base = quantile(direct, 0.5)
    return (quantile(through, 0.5) - base) / MS, (quantile(through, 0.99) - base) / MS


def loaded(fleet, rate, replicas):
    """The figures of a stretch with full queues."""
    fleet.load(queued=10 if rate <= 10 else 50 if rate == 100 else rate // 8 // replicas + 100)
    began = now()
    fleet.wait_arrivals(2 * replicas if rate > 1 else 1, since=began)
    watch, calls, late, since = Machine(fleet), fleet.redis.calls(), fleet.slots("late"), now()
    sleep_until(since + LOADED_SECONDS[rate] * S)
    calls, until = fleet.redis.calls() - calls, now()
    waited, late = watch.waited_share(), fleet.slots("late") - late
    fleet.unload()
    arrivals = fleet.arrivals(since, until)
    stamps = [a.at for a in arrivals]
    shares = [sum(a.path.startswith(f"/{number}/") for a in arrivals) for number in range(replicas)]
    paced = [a.at for a in fleet.arrivals() if not a.path.endswith(STRAIGHT)]  # they name the host as for a proxy
    return {"most": most_in_window(paced, S), "used": used(stamps, fleet.rate), "gap_min_ms": smallest_gap(stamps) / MS,
            "slot_ms": fleet.interval / MS, "calls_per_request": calls / len(arrivals), "jain": jain(shares), "waited": waited, "late": late, "shares": shares}


def cell(rate, replicas):
    with tempfile.TemporaryDirectory() as directory, Rig(directory) as rig:
        proxy = {"log_level": "warn", "log_file": f"{directory}/log", "max_connections": "20000"}
        fleet = Fleet(rig, f"{rate}/s", replicas=replicas, proxy=proxy)
        p50, p99 = idle(fleet, IDLE_REQUESTS[rate], max(2.1 * fleet.interval, 5 * MS))
        return {"rate": rate, "replicas": replicas, **loaded(fleet, rate, replicas), "idle_p50_ms": p50, "idle_p99_ms": p99}


def row(f):
    return (f"{f['rate']}", f"{f['replicas']}", f"{f['most']}", f"{100 * f['used']:.1f}", f"{f['gap_min_ms']:.3f}", f"{f['slot_ms']:.3f}",
            f"{f['calls_per_request']:.2f}", f"{f['idle_p50_ms']:.2f}", f"{f['idle_p99_ms']:.2f}", f"{f['jain']:.4f}",
            f"{f['late']}", f"{100 * f['waited']:.1f}")


def print_row(words):
    print("| " + " | ".join(f"{word:>{len(name)}}" for word, name in zip(words, HEADING)) + " |", flush=True)


def measure(cells):
    quiet = [c for c in cells if c[0] <= 10]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(quiet))) as side_by_side:
        yield from side_by_side.map(lambda c: cell(*c), quiet)
    for alone in cells[len(quiet):]:
        yield cell(*alone)


def main():
    wanted = os.environ.get("BENCH_CELLS")
    cells = [tuple(map(int, c.split("x"))) for c in wanted.split()] if wanted else [(r, n) for r in RATES for n in REPLICAS]
    print_row(HEADING)
    print("|" + "|".join("-" * (len(name) + 1) + ":" for name in HEADING) + "|")
    found = []
    for figures in measure(sorted(cells)):
        found.append(figures)
        print_row(row(figures))
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")
    return any(f["most"] > f["rate"] for f in found)


if __name__ == "__main__":
    sys.exit(main())
