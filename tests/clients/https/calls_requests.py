"""python requests, a session for each third party."""
import sys

import requests

for url in sys.argv[1:]:
    with requests.Session() as session:
        for n in range(10):
            assert session.get(f"{url}/{n}").text == "ok"
        assert session.post(f"{url}/up", data=b"x" * 2000000).text == "2000000"
        assert len(session.get(f"{url}/down").content) == 3000000
        for n in range(5):
            assert session.get(f"{url}/{n}").text == "ok"
