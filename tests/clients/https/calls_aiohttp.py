"""python aiohttp, which is told to look at the environment; the last five at a time."""
import asyncio
import sys

import aiohttp


async def text(session, url, method="GET", **more):
    async with session.request(method, url, **more) as answer:
        assert answer.status == 200
        return await answer.text()


async def main():
    for url in sys.argv[1:]:
        async with aiohttp.ClientSession(trust_env=True) as session:
            for n in range(10):
                assert await text(session, f"{url}/{n}") == "ok"
            assert await text(session, f"{url}/up", "POST", data=b"x" * 2000000) == "2000000"
            assert len(await text(session, f"{url}/down")) == 3000000
            assert await asyncio.gather(*(text(session, f"{url}/{n}") for n in range(5))) == ["ok"] * 5


asyncio.run(main())
