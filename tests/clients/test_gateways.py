"""Gateways that ask the check endpoint, configured as the README says."""
import shutil
import subprocess

import pytest

from rig import Process, answers, eventually, free_port, ini
from wire import Caller

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def nginx_conf(directory, port, backend, check):
    return f"""
daemon off; pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  server {{
    listen 127.0.0.1:{port};
    location /api/ {{ auth_request /limit; error_page 500 =429 /limited; proxy_pass http://{backend}; }}
    location = /limit {{ internal; proxy_pass http://127.0.0.1:{check}/check/public-api; proxy_pass_request_body off;
                        proxy_set_header Content-Length ""; proxy_set_header X-Original-Method $request_method;
                        proxy_set_header X-Original-URI $request_uri; proxy_set_header X-Forwarded-For $remote_addr; }}
    location = /limited {{ internal; return 429; }}
  }}
}}"""


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_asks_by_auth_request(rig, origin, tmp_path):
    """nginx passes on what sluice admits and answers 429 to the rest; the limit of one path leaves the others alone."""
    if "auth_request" not in subprocess.run([NGINX, "-V"], capture_output=True, text=True, check=True).stderr:
        pytest.skip("this nginx has no auth_request")
    from origin import ok

    origin.on("/api/a", ok())
    origin.on("/api/b", ok())
    check, port = free_port(), free_port()
    rig.sluice(ini() + f"[inbound public-api]\nlisten = 127.0.0.1:{check}\nrate = 1/1h\ncapacity = 3\n"
               "[inbound-rule a]\ninbound = public-api\npath = /api/a\nrate = 1/1h\ncapacity = 1\n")
    conf = tmp_path / "nginx.conf"
    conf.write_text(nginx_conf(tmp_path, port, origin.authority, check))
    nginx = rig.add(Nginx("nginx", [NGINX, "-c", str(conf), "-p", str(tmp_path)]))
    eventually(lambda: answers(("127.0.0.1", port)), why="nginx listening")

    def status(path):
        caller = Caller(("127.0.0.1", port))
        caller.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        found = caller.response().status
        caller.close()
        return found

    assert [status("/api/a"), status("/api/a"), status("/api/b"), status("/api/b"), status("/api/b")] == [200, 429, 200, 200, 429]
    assert nginx.alive()


class Nginx(Process):
    def stop(self):
        self.signal(15)
        self.exit_code()
