"""HTTPS leaves as evenly as anything else: requests over a kept-alive connection, in each of the three modes, by one
process and by three that share a Redis, judged by when they reached the third party.

`make clients FULL=1` (or FULL=1 in the environment) sends 100 at 10/s instead of 30 at 30/s.
"""
import os
import threading

import pytest

from origin import most_in_window
from pki import Pki, TlsOrigin, Tunnelled
from rig import free_port, ini, run
from wire import Caller

FULL = bool(os.environ.get("FULL"))
COUNT, RATE = (100, 10) if FULL else (30, 30)


class Fleet:
    def __init__(self, rig, mode, size):
        self.mode, self.pki = mode, Pki(rig.directory)
        self.origin = rig.add(TlsOrigin(self.pki.issue()))
        self.host = f"localhost:{self.origin.port}"
        proxy = {"connect_ports": str(self.origin.port)}
        self.trusted = self.pki.ca
        if mode == "intercept":
            assert run("ca", "init", "--dir", str(rig.directory / "ca")).returncode == 0
            proxy["ca_dir"], self.trusted = rig.directory / "ca", rig.directory / "ca" / "ca.pem"
        keys = {"hosts": self.host, "https": mode, "ca_file": self.pki.ca, "rate": f"{RATE}/s"}
        redis = {"url": rig.redis().url} if size > 1 else None
        self.admins = [("127.0.0.1", free_port()) for _ in range(size)]
        self.sluices = [rig.sluice(text=self._ini(proxy, redis, keys, port)) for _, port in self.admins]

    @staticmethod
    def _ini(proxy, redis, keys, port):
        return ini(proxy=proxy, redis=redis, destinations={"api": keys}) + f"[admin]\nlisten = 127.0.0.1:{port}\n"

    def caller(self, sluice):
        if self.mode == "originate":
            caller = Caller(sluice.address)
            return caller, lambda: caller.get(f"http://{self.host}/")
        caller = Tunnelled(sluice.address, self.host, self.trusted)
        return caller, lambda: caller.ask(self.host)

    def send(self, sluice, count):
        caller, ask = self.caller(sluice)
        for _ in range(count):
            assert ask().status == 200
        caller.close()

    def send_all(self):
        shares = [COUNT // len(self.sluices) + (n < COUNT % len(self.sluices)) for n in range(len(self.sluices))]
        senders = [threading.Thread(target=self.send, args=pair) for pair in zip(self.sluices, shares)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()

    def passed_by(self):
        """Slots that were not used: the machine was too slow for them, or a replica had nobody for one."""
        total = 0
        for address in self.admins:
            caller = Caller(address)
            caller.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            for line in caller.response().body.decode().splitlines():
                if line.startswith('sluice_slots_total{destination="api"') and 'outcome="used"' not in line:
                    total += int(line.rpartition(" ")[2])
            caller.close()
        return total


@pytest.mark.parametrize("size", [1, 3], ids=["one", "three"])
@pytest.mark.parametrize("mode", ["originate", "intercept", "tunnel"])
def test_requests_over_kept_alive_connections_leave_evenly(rig, mode, size, record_property):
    fleet = Fleet(rig, mode, size)
    interval = float(fleet.sluices[0].wait_event("destination", label="api")[0]["interval_ms"]) / 1000
    fleet.send_all()
    stamps = fleet.origin.stamps()
    took, passed_by, most = stamps[-1] - stamps[0], fleet.passed_by(), most_in_window(stamps, 1.0)
    record_property("figure", f"{COUNT} at {RATE}/s, {mode}, {size} process(es): first to last {took:.3f} s, at most {most} in any "
                              f"1 s, {passed_by} slots not used, {fleet.origin.connections} connection(s)")
    assert len(stamps) == COUNT and most <= RATE
    assert fleet.origin.connections == size
    assert took >= (COUNT - 2) * interval
    if FULL:
        assert took <= (COUNT + passed_by) * interval and (passed_by > 0 or abs(took - COUNT / RATE) <= interval)
    else:
        assert took <= 4 * COUNT * interval  # where many tests run at a time, a caller may be late itself
