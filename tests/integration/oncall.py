"""Whoever operates: a sluice with an [admin], asked over HTTP and by the command line."""
import http.client
import json
import subprocess
import threading

from rig import EXIT_SECONDS, PROGRAM, environment, eventually, ini, split_address


class Admin:
    def __init__(self, sluice, token=None):
        self.sluice = sluice
        self.address = split_address(sluice.wait_event("admin")[0]["address"])
        self.url = "http://%s:%d" % self.address
        self.token = token

    def ask(self, method, path, body=None, **headers):
        """(status, headers, body) of one exchange. A dict as body becomes JSON; a header of None is left out."""
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        fields = {"Content-Type": "application/json"} if isinstance(body, dict) else {}
        if self.token:
            fields["Authorization"] = f"Bearer {self.token}"
        fields.update({name.replace("_", "-"): value for name, value in headers.items()})
        data = json.dumps(body) if isinstance(body, dict) else body
        try:
            connection.request(method, path, data, {k: v for k, v in fields.items() if v is not None})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def status(self):
        code, _, text = self.get("/status.json")
        assert code == 200, text
        return json.loads(text)

    def destination(self, name):
        return next((it for it in self.status()["destinations"] if it["name"] == name), None)

    def order(self, verb, **body):
        code, _, text = self.ask("POST", f"/control/{verb}", body)
        return code, json.loads(text)

    def metrics(self):
        code, _, text = self.get("/metrics")
        assert code == 200
        return text

    def metric(self, sample):
        return next((float(line.rpartition(" ")[2]) for line in self.metrics().splitlines() if line.rpartition(" ")[0] == sample), None)

    def when(self, name, condition, seconds=10):
        """Waits until the destination's row fulfils the condition; the row."""
        def look():
            row = self.destination(name)
            return row if row is not None and condition(row) else None
        return eventually(look, seconds, f"{name} in the status")


def operated(rig, token_lines=None, **sections):
    """A sluice with an [admin]; its Admin."""
    admin = "[admin]\nlisten = 127.0.0.1:0\n"
    if token_lines is not None:
        path = rig.directory / "tokens"
        path.write_text(token_lines)
        admin += f"token_file = {path}\n"
    return Admin(rig.sluice(ini(**sections) + admin))


def command(admin, *words, **options):
    """`sluice WORD ...` as an operator types it."""
    return subprocess.run([PROGRAM, words[0], "--admin", admin if isinstance(admin, str) else admin.url, *words[1:]], capture_output=True,
                          text=True, timeout=EXIT_SECONDS, env={**environment(), **options.get("env", {})}, check=False)


def ask_away(sluice, url, count=1):
    """That many callers, each waiting for its answer; the statuses come into the list."""
    statuses = []

    def call():
        try:
            statuses.append(sluice.get(url).status)
        except OSError:
            pass  # the test is over

    threads = [threading.Thread(target=call, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, statuses


def api(origin, **keys):
    return {"api": {"hosts": f"127.0.0.1:{origin.port}", **keys}}
