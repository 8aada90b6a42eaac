"""apt: reads the index of a small repository and downloads a package, with its usual pipelining, through the proxy."""
import hashlib
import subprocess

import pytest

from client import needs, run
from origin import ok

pytestmark = [needs("apt-get"), needs("dpkg-deb")]

SETTINGS = """Dir "{here}";
Dir::Etc::parts "/dev/null/none";
Dir::Etc::main "/dev/null/none";
Dir::Etc::sourcelist "{here}/sources.list";
Dir::Etc::sourceparts "/dev/null/none";
Dir::State::status "{here}/status";
Dir::State "{here}/state";
Dir::Cache "{here}/cache";
Dir::Log "{here}";
Acquire::http::Proxy "{proxy}";
Acquire::Languages "none";
APT::Sandbox::User "root";
"""


@pytest.fixture
def repository(origin, tmp_path):
    """Three packages, their files served by the origin."""
    index = ""
    for name in ("one", "two", "three"):
        control = tmp_path / name / "DEBIAN"
        control.mkdir(parents=True)
        control.chmod(0o755)
        fields = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: {name}\n"
        (control / "control").write_text(fields)
        run_here(tmp_path, "dpkg-deb", "--root-owner-group", "-b", name, f"{name}_1_all.deb")
        data = (tmp_path / f"{name}_1_all.deb").read_bytes()
        origin.on(f"/./{name}_1_all.deb", ok(data))
        origin.on(f"/{name}_1_all.deb", ok(data))
        index += f"{fields}Filename: ./{name}_1_all.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
    origin.fallback = lambda peer, _: peer.send(ok(b"", status="404 Not Found"))
    origin.on("/./Packages", ok(index.encode()))
    return origin


def run_here(directory, *command):
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=30)


def test_update_and_download(rig, repository, tmp_path):
    sluice = rig.sluice()
    for name in ("state/lists/partial", "cache/archives/partial"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "status").write_text("")
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] {repository.url('/')} ./\n")
    (tmp_path / "apt.conf").write_text(SETTINGS.format(here=tmp_path, proxy=sluice.url))
    apt = ["env", "-u", "http_proxy", f"APT_CONFIG={tmp_path}/apt.conf", "apt-get", "-q"]
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}_1_all.deb").unlink()
    run(sluice, tmp_path, *apt, "update")
    run(sluice, tmp_path, *apt, "download", "one", "two", "three")
    assert all((tmp_path / f"{name}_1_all.deb").stat().st_size > 100 for name in ("one", "two", "three"))
    assert len(sluice.events("access")) == len(repository.requests) >= 4
