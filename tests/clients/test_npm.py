"""npm: installs a package with a dependency from a registry of our own through the proxy."""
import base64
import hashlib
import io
import json
import tarfile

from client import needs, run
from origin import ok

pytestmark = needs("npm")


def publish(origin, name, dependencies):
    """Serves one version of a package the way a registry does."""
    manifest = {"name": name, "version": "1.0.0", "dependencies": dependencies}
    files = {"package.json": json.dumps(manifest), "index.js": f"module.exports = {name!r};"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    tarball = origin.on(f"/{name}/-/{name}-1.0.0.tgz", ok(packed.getvalue(), "Content-Type: application/octet-stream"))
    document = {"name": name, "dist-tags": {"latest": "1.0.0"},
                "versions": {"1.0.0": {**manifest, "dist": {"tarball": tarball, "integrity": integrity}}}}
    origin.on(f"/{name}", ok(json.dumps(document).encode(), "Content-Type: application/json"))


def test_install(rig, origin):
    sluice = rig.sluice()
    publish(origin, "left-part", {"right-part": "^1.0.0"})
    publish(origin, "right-part", {})
    home = rig.directory / "home"
    home.mkdir()
    run(sluice, home, "npm", "install", "left-part", f"--registry={origin.url('/')}", f"--proxy={sluice.url}", "--noproxy=",
        f"--cache={home}/cache", f"--userconfig={home}/npmrc", f"--globalconfig={home}/globalrc", "--no-audit", "--no-fund",
        "--no-update-notifier")
    assert (home / "node_modules" / "right-part" / "index.js").read_text() == "module.exports = 'right-part';"
    assert len(origin.requests) == 4 and all(r.all("Via") for r in origin.requests)
    assert len(sluice.access(4, verdict="forwarded")) == 4
