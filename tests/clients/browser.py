"""A headless Chromium, spoken to by its DevTools protocol over a pair of pipes: messages of JSON with a zero byte behind each."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium")
PATIENCE_SECONDS = 30


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="sluice-chromium-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        for end in (theirs_in, theirs_out):
            os.set_inheritable(end, True)

        def take_places():  # it reads from 3 and writes to 4
            held = [os.dup(theirs_in), os.dup(theirs_out)]
            os.dup2(held[0], 3)
            os.dup2(held[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=take_places, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.profile})
        os.close(theirs_in)
        os.close(theirs_out)
        self.ours_in, self.ours_out = ours_in, ours_out
        self.numbers = itertools.count(1)
        self.rest = b""
        self.events = []
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _message(self, end):
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self.ours_in], [], [], left)[0]:
                data = os.read(self.ours_in, 1 << 20)
                assert data, "the browser is gone"
                self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        message = {"id": next(self.numbers), "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_SECONDS
        while (answer := self._message(end)).get("id") != message["id"]:
            self.events.append(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def go(self, url):
        self.call("Page.navigate", url=url)

    def look(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression):
        """Until the expression is true; its value. What it looks at may not be there yet."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (value := self.look(f"(() => {{ try {{ return {expression}; }} catch (_) {{ return false; }} }})()")):
            assert time.monotonic() < end, f"{expression} did not come true; the page says:\n{self.look('document.body.innerText')}"
            time.sleep(0.05)
        return value

    def press(self, key, code=0, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text if kind == "keyDown" else "")

    def resize(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]))

    def complaints(self):
        """What stood in the console as warning or error, exceptions, and refused or failed requests."""
        self.look("1")
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def asked(self):
        """Every address that was asked for."""
        self.look("1")
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def close(self):
        os.close(self.ours_out)  # its input ends: it ends
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.ours_in)
        shutil.rmtree(self.profile, ignore_errors=True)
