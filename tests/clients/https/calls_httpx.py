"""python httpx, a client for each third party."""
import sys

import httpx

for url in sys.argv[1:]:
    with httpx.Client() as client:
        for n in range(10):
            assert client.get(f"{url}/{n}").text == "ok"
        assert client.post(f"{url}/up", content=b"x" * 2000000).text == "2000000"
        assert len(client.get(f"{url}/down").content) == 3000000
        for n in range(5):
            assert client.get(f"{url}/{n}").text == "ok"
