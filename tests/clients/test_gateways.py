"""Gateways in front of an API: those that ask the check endpoint, configured as the README says, and one that passes on."""
import http.client
import os
import shutil
import subprocess

import pytest

from origin import ok
from rig import Process, answers, eventually, free_port, ini

RULES = "rate = 1/1h\ncapacity = 3\n[inbound-rule a]\ninbound = public-api\npath = /api/a\nrate = 1/1h\ncapacity = 1\n"


def program(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    return found or pytest.skip(f"{name} is not installed")


class Gateway(Process):
    def __init__(self, command, port, directory):
        super().__init__("gateway", command, cwd=directory, env={**os.environ, "HOME": str(directory), "XDG_CONFIG_HOME": str(directory)})
        self.port = port
        eventually(lambda: not self.alive() or answers(("127.0.0.1", port)), why="the gateway listening")
        assert self.alive(), self.text()

    def get(self, path, source="127.0.0.1", method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(source, 0))
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            return answer
        finally:
            connection.close()

    def stop(self):
        self.signal(15)
        self.exit_code()
        self.forget()


def asked(rig, origin):
    """A sluice that is asked; the port of its check endpoint."""
    origin.on("/api/a", ok())
    origin.on("/api/b", ok())
    check = free_port()
    rig.sluice(ini() + f"[inbound public-api]\nlisten = 127.0.0.1:{check}\n{RULES}")
    return check


def judge(gateway, origin):
    """Passes on what sluice admits, 429 to the rest; the limit of one path leaves the others alone; addresses have limits each."""
    paths = ["/api/a", "/api/a", "/api/b", "/api/b", "/api/b"]
    found = [gateway.get(path) for path in paths]
    assert [answer.status for answer in found] == [200, 429, 200, 200, 429]
    assert int(found[1].headers["Retry-After"]) >= 1
    assert [gateway.get(path, "127.0.0.2").status for path in paths] == [200, 429, 200, 200, 429]
    assert len(origin.to("/api/a")) == 2 and len(origin.to("/api/b")) == 4, "refused requests reached the API"
    assert gateway.alive()


def nginx(rig, tmp_path, backend, check):
    binary = program("nginx")
    if "auth_request" not in subprocess.run([binary, "-V"], capture_output=True, text=True, check=True).stderr:
        pytest.skip("this nginx has no auth_request")
    port = free_port()
    (tmp_path / "nginx.conf").write_text(f"""
daemon off; pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {tmp_path}/b; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f;
  uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
  server {{
    listen 127.0.0.1:{port};
    location /api/ {{
      auth_request /limit;
      auth_request_set $limit_status $upstream_status;
      auth_request_set $limit_retry $upstream_http_retry_after;
      auth_request_set $limit_left $upstream_http_ratelimit;
      add_header RateLimit $limit_left;
      error_page 500 = @limited;
      proxy_pass http://{backend};
    }}
    location = /limit {{
      internal;
      proxy_pass http://127.0.0.1:{check}/check/public-api;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-URI $request_uri;
      proxy_set_header X-Forwarded-For $remote_addr;
    }}
    location @limited {{
      add_header Retry-After $limit_retry always;
      add_header RateLimit $limit_left always;
      if ($limit_status = 429) {{ return 429; }}
      return 503;
    }}
  }}
}}""")
    return rig.add(Gateway([binary, "-c", f"{tmp_path}/nginx.conf", "-p", str(tmp_path)], port, tmp_path))


def test_nginx_asks_by_auth_request(rig, origin, tmp_path):
    gateway = nginx(rig, tmp_path, origin.authority, asked(rig, origin))
    judge(gateway, origin)
    admitted, refused = gateway.get("/api/b", "127.0.0.3"), gateway.get("/api/a", "127.0.0.2")
    assert admitted.headers["RateLimit"].startswith('"default";r=2;t=')
    assert '"a";r=0;t=' in refused.headers["RateLimit"]


def test_nginx_tells_a_missing_sluice_from_a_limit(rig, origin, tmp_path):
    """Nobody listens at the check endpoint: that is 503 and not the caller's fault."""
    origin.on("/api/a", ok())
    assert nginx(rig, tmp_path, origin.authority, free_port()).get("/api/a").status == 503
    assert origin.to("/api/a") == []


def test_caddy_asks_by_forward_auth(rig, origin, tmp_path):
    binary, port = program("caddy"), free_port()
    check = asked(rig, origin)
    (tmp_path / "Caddyfile").write_text(
        "{\n\tadmin off\n\tauto_https off\n}\n"
        f"http://:{port} {{\n\tbind 127.0.0.1\n"
        f"\tforward_auth 127.0.0.1:{check} {{\n\t\turi /check/public-api\n\t}}\n"
        f"\treverse_proxy {origin.authority}\n}}\n")
    judge(rig.add(Gateway([binary, "run", "--config", f"{tmp_path}/Caddyfile", "--adapter", "caddyfile"], port, tmp_path)), origin)


def test_haproxy_in_front_of_the_reverse_proxy(rig, origin, tmp_path):
    """A gateway that cannot ask stands before sluice: callers are told apart by what it writes into X-Forwarded-For."""
    binary, port, inbound = program("haproxy"), free_port(), free_port()
    origin.on("/api/a", ok())
    origin.on("/api/b", ok())
    rig.sluice(ini() + f"[inbound public-api]\nlisten = 127.0.0.1:{inbound}\nupstream = http://{origin.authority}\n{RULES}")
    (tmp_path / "haproxy.cfg").write_text(
        "defaults\n  mode http\n  option forwardfor\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n"
        f"listen api\n  bind 127.0.0.1:{port}\n  server sluice 127.0.0.1:{inbound}\n")
    judge(rig.add(Gateway([binary, "-db", "-f", f"{tmp_path}/haproxy.cfg"], port, tmp_path)), origin)
