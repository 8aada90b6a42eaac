"""What `make install` and `make deb` put where; the manual, the unit and the completions are in order."""
import fcntl
import os
import re
import shutil
import subprocess

import pytest

from rig import PROGRAM, ROOT, run

BUILD = os.path.relpath(os.path.dirname(PROGRAM), ROOT)
FILES = {
    "usr/bin/sluice": 0o755,
    "usr/share/man/man8/sluice.8": 0o644,
    "usr/share/man/man5/sluice.ini.5": 0o644,
    "usr/lib/systemd/system/sluice.service": 0o644,
    "usr/lib/systemd/system/sluice.socket": 0o644,
    "usr/lib/sysusers.d/sluice.conf": 0o644,
    "usr/share/bash-completion/completions/sluice": 0o644,
    "usr/share/zsh/site-functions/_sluice": 0o644,
    "usr/share/fish/vendor_completions.d/sluice.fish": 0o644,
    "etc/logrotate.d/sluice": 0o644,
    "etc/sluice/sluice.ini": 0o644,
}


def done(*words, **options):
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def make(*words):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return done("make", "--no-print-directory", "-C", str(ROOT), f"B={BUILD}", *words, env=environment)


def files_below(directory):
    return {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in directory.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    directory = tmp_path_factory.mktemp("root")
    make(f"DESTDIR={directory}", "PREFIX=/usr", "install")
    return directory


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    copy = tmp_path_factory.mktemp("package") / "sluice.deb"
    with open(ROOT / BUILD / "package.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run at the same time make it in the same place
        shutil.copy(ROOT / make("deb").split()[-1], copy)
    return copy


def test_everything_is_where_it_belongs(root):
    assert files_below(root) == FILES


def test_settings_that_are_there_are_left_alone_and_nothing_else_stays(tmp_path):
    target = (f"DESTDIR={tmp_path}", "PREFIX=/opt/x")
    make(*target, "install")
    settings = tmp_path / "etc/sluice/sluice.ini"
    settings.write_text("[proxy]\n")
    make(*target, "install")
    assert settings.read_text() == "[proxy]\n"
    assert "ExecStart=/opt/x/bin/sluice -c /etc/sluice/sluice.ini" in (
        tmp_path / "opt/x/lib/systemd/system/sluice.service").read_text()
    make(*target, "uninstall")
    assert list(files_below(tmp_path)) == ["etc/sluice/sluice.ini"]


def test_the_installed_settings_are_good(root):
    assert run("-c", str(root / "etc/sluice/sluice.ini"), "--check").returncode == 0


@pytest.mark.skipif(not shutil.which("man"), reason="man is not there")
@pytest.mark.parametrize("page", ["man8/sluice.8", "man5/sluice.ini.5"])
def test_the_manual_has_no_faults(root, page):
    path = root / "usr/share/man" / page
    shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", str(path)], capture_output=True, text=True, timeout=30,
                           check=True, env={**os.environ, "MANROFFOPT": "-ww", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
    assert shown.stderr == ""
    assert "NAME" in shown.stdout
    if shutil.which("mandoc"):
        assert done("mandoc", "-T", "lint", "-W", "warning", str(path)) == ""


def test_the_manual_names_every_key(root):
    page = (root / "usr/share/man/man5/sluice.ini.5").read_text()
    keys = set(re.findall(r"^\[[a-z-]+\] ([a-z0-9_]+) =", run("--help-config").stdout, re.M))
    assert keys and keys <= set(re.findall(r"^\.B ([a-z0-9_]+)", page, re.M))


def test_the_manual_names_every_option(root):
    page = (root / "usr/share/man/man8/sluice.8").read_text().replace("\\-", "-")
    options = set(re.findall(r"--[a-z][a-z-]+", run("--help").stdout))
    assert options and [option for option in options if option not in page] == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not there")
def test_the_unit_is_understood_and_locked_up(root):
    unit = root / "usr/lib/systemd/system/sluice.service"
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit), str(unit.with_suffix(".socket"))],
                          capture_output=True, text=True, timeout=60, check=False)
    about_us = [line for line in (said.stdout + said.stderr).splitlines() if "sluice" in line and "not executable" not in line]
    assert about_us == []
    rating = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)], capture_output=True,
                            text=True, timeout=60, check=False).stdout
    assert float(re.search(r"Overall exposure level for sluice.service: ([0-9.]+)", rating)[1]) <= 2.0


def test_completion_knows_options_and_commands(root):
    script = root / "usr/share/bash-completion/completions/sluice"

    def complete(*words):
        code = (f'PATH="{os.path.dirname(PROGRAM)}:$PATH"; . "{script}"; COMP_WORDS=(sluice {" ".join(words)}); '
                f'COMP_CWORD={len(words)}; _sluice; printf "%s\\n" "${{COMPREPLY[@]}}"')
        return done("bash", "-c", code).split()

    assert "--check" in complete("--c") and "--help" in complete("--")
    assert complete("c") == ["ca"]
    assert complete("ca", '""') == ["init", "show"]


def test_the_package_has_all_of_it_and_says_what_it_needs(package):
    control = done("dpkg-deb", "-f", str(package))
    fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", control, re.M))
    assert fields["Package"] == "sluice" and fields["Version"] == run("--version").stdout.split()[1]
    depends = {name.split()[0] for name in fields["Depends"].split(", ")}
    assert {"libc6", "libcurl4", "libevent-2.1-7", "libhiredis0.14", "libinih1", "libssl3", "libjansson4"} <= depends
    contents = {line.split()[5].removeprefix("./"): line.split()[:2] for line in done("dpkg-deb", "-c", str(package)).splitlines()}
    assert all(owner == "root/root" for _, owner in contents.values())
    wanted = {f"{path}.gz" if "/man/" in path else path.replace("site-functions", "vendor-completions") for path in FILES}
    assert wanted - {"usr/lib/sysusers.d/sluice.conf"} <= set(contents)
    assert contents["etc/sluice/sluice.ini"][0] == "-rw-r--r--"


def test_the_package_keeps_changed_settings_and_cleans_up_after_itself(package, tmp_path):
    done("dpkg-deb", "-e", str(package), str(tmp_path))
    assert (tmp_path / "conffiles").read_text().split() == ["/etc/logrotate.d/sluice", "/etc/sluice/sluice.ini"]
    for script in ("postinst", "prerm", "postrm"):
        assert (tmp_path / script).stat().st_mode & 0o777 == 0o755
        done("sh", "-n", str(tmp_path / script))
    sums = (tmp_path / "md5sums").read_text()
    assert "usr/bin/sluice" in sums and "etc/" not in sums
