"""Python: requests with a session, and the standard library's urllib; both find the proxy in the environment."""
import subprocess
import sys

import pytest

from client import run
from origin import most_in_window, ok, reply

URLLIB = """
import sys, urllib.request, urllib.error
print(urllib.request.urlopen(sys.argv[1] + "/a", timeout=20).read().decode())
print(urllib.request.urlopen(sys.argv[1] + "/post", data=b"x" * 100000, timeout=20).status)
try:
    urllib.request.urlopen(sys.argv[1] + "/404", timeout=20)
except urllib.error.HTTPError as error:
    print(error.code)
"""

REQUESTS = """
import sys, requests
session = requests.Session()
for number in range(10):
    assert session.get(sys.argv[1] + "/%d" % number, params={"q": "a b"}, timeout=20).text == "ok"
assert session.post(sys.argv[1] + "/json", json={"a": 1}, timeout=20).status_code == 200
assert session.put(sys.argv[1] + "/stream", data=(b"x" * 1000 for _ in range(10)), timeout=20).status_code == 200
assert session.head(sys.argv[1] + "/", timeout=20).status_code == 200
with session.get(sys.argv[1] + "/lines", stream=True, timeout=20) as lines:
    print(sum(1 for _ in lines.iter_lines()))
"""


def has_requests():
    return subprocess.run([sys.executable, "-c", "import requests"], capture_output=True, check=False).returncode == 0


def test_urllib(rig, origin):
    sluice = rig.sluice()
    origin.on("/404", ok(b"", status="404 Not Found"))
    done = run(sluice, rig.directory, sys.executable, "-c", URLLIB, origin.url(""))
    assert done.stdout.split() == [b"ok", b"200", b"404"]
    assert len(origin.to("/post")[0].body) == 100000 and len(sluice.access(3)) == 3


@pytest.mark.skipif(not has_requests(), reason="python3-requests is not installed here")
def test_requests(rig, origin):
    sluice = rig.sluice(default={"rate": "10/300ms"})
    origin.on("/lines", reply(b"HTTP/1.1 200 OK\r\n\r\n" + b"line\n" * 1000, close=True))
    done = run(sluice, rig.directory, sys.executable, "-c", REQUESTS, origin.url(""))
    assert done.stdout.strip() == b"1000"
    assert origin.requests[0].target == "/0?q=a+b"
    assert origin.to("/stream")[0].chunked and len(origin.to("/stream")[0].body) == 10000
    assert most_in_window(origin.stamps(), 0.3) <= 10
