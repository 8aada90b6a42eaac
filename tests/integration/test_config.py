"""Settings: every mistake is refused with file, line, key and the nearest right name; what is in force can be printed."""
import pytest

from rig import ini, run, with_file

GOOD = """# a comment of its own
[proxy]
listen = 127.0.0.1:3128, [::1]:3128
unlisted = deny
connect_ports = 443, 8000-8100
private_upstreams = 10.0.0.0/8, 2001:db8::/32

[redis]
url = redis://127.0.0.1:6379/2

[default]
rate = 10/s

[destination api.example.com]
rate = 5000/1h
max_queue = 7
max_wait = 5m

[destination edgar]
hosts = www.sec.gov, *.sec.gov, [2001:db8::1]:8080
rate = 1/3s
strict = gap
on_redis_down = reject
"""


def test_version_and_help_name_the_options():
    assert run("--version").stdout.startswith("sluice ")
    done = run("--help")
    assert done.returncode == 0
    for option in ("-c", "--check", "--dump-config", "--version", "--help"):
        assert option in done.stdout


def test_help_config_names_every_key_with_its_default():
    done = run("--help-config")
    assert done.returncode == 0
    for word in ("listen", "connect_ports", "private_upstreams", "max_queue", "on_redis_down", "127.0.0.1:3128", "10/s"):
        assert word in done.stdout


def test_check_prints_what_will_happen_to_each_destination(tmp_path):
    done = with_file(tmp_path, GOOD, "--check")
    assert done.returncode == 0, done.stderr
    for word in ("api.example.com", "edgar", "tunnel", "5m", "reject"):
        assert word in done.stdout, word


def test_dump_config_is_a_file_that_means_the_same(tmp_path):
    first = with_file(tmp_path, GOOD, "--dump-config")
    assert first.returncode == 0, first.stderr
    second = with_file(tmp_path, first.stdout, "--dump-config")
    assert second.returncode == 0, second.stderr
    assert first.stdout == second.stdout
    for word in ("[destination edgar]", "1/3s", "5000/1h", "8000-8100", "*.sec.gov"):
        assert word in first.stdout, word


def test_dump_config_masks_the_password(tmp_path):
    done = with_file(tmp_path, "[redis]\nurl = redis://me:hunter2@127.0.0.1:6379/3\n", "--dump-config")
    assert done.returncode == 0 and "hunter2" not in done.stdout and "me" in done.stdout


MISTAKES = {
    "an unknown key": ("[proxy]\nlisten = 127.0.0.1:3128\nlissten = 127.0.0.1:0\n", 3, ["lissten", "listen"]),
    "an unknown section": ("[proxi]\n", 1, ["proxi", "proxy"]),
    "a key of another section": ("[proxy]\nrate = 1/s\n", 2, ["rate", "[default]"]),
    "a section twice": ("[default]\nrate = 1/s\n\n[default]\n", 4, ["default"]),
    "a destination twice": ("[destination a]\nrate = 1/s\n[destination a]\nrate = 1/s\n", 3, ["a"]),
    "a key twice": ("[default]\nrate = 1/s\nrate = 2/s\n", 3, ["rate"]),
    "a rate of 0": ("[default]\nrate = 0/s\n", 2, ["rate"]),
    "a rate without a period": ("[default]\nrate = 10\n", 2, ["rate"]),
    "a period without a unit": ("[default]\nmax_wait = 30\n", 2, ["max_wait"]),
    "a negative duration": ("[default]\nmax_wait = -1s\n", 2, ["max_wait"]),
    "a word for a number": ("[default]\nmax_queue = many\n", 2, ["max_queue"]),
    "a number out of range": ("[default]\nmax_queue = 0\n", 2, ["max_queue"]),
    "a number beyond 64 bits": ("[default]\nmax_queue = 99999999999999999999\n", 2, ["max_queue"]),
    "an unknown choice": ("[default]\non_redis_down = hodl\n", 2, ["on_redis_down", "hold"]),
    "a bad address": ("[proxy]\nlisten = 127.0.0.1\n", 2, ["listen"]),
    "a bad port": ("[proxy]\nconnect_ports = 70000\n", 2, ["connect_ports"]),
    "a port range backwards": ("[proxy]\nconnect_ports = 90-80\n", 2, ["connect_ports"]),
    "a bad network": ("[proxy]\nallow_clients = 10.0.0.1/8\n", 2, ["allow_clients"]),
    "a bad host": ("[destination x]\nhosts = a..b, *\n", 2, ["hosts"]),
    "a host in two destinations": ("[destination a]\nhosts = h.example\n[destination b]\nhosts = h.example\n", 4, ["h.example"]),
    "a bad Redis URL": ("[redis]\nurl = http://127.0.0.1\n", 2, ["url"]),
    "a key before any section": ("rate = 1/s\n", 1, ["rate"]),
    "no equals sign": ("[default]\nrate 1/s\n", 2, []),
    "a section without its bracket": ("[default\nrate = 1/s\n", 1, []),
    "a destination without a name": ("[destination]\nrate = 1/s\n", 1, ["destination"]),
    "a remark behind a value": ("[default]\nrate = 10/s ; fast\n", 2, []),
    "an empty value": ("[default]\nrate =\n", 2, ["rate"]),
    "a NUL byte": ("[default]\nrate = 1/s\0\n", 2, []),
}


@pytest.mark.parametrize("text, line, words", MISTAKES.values(), ids=[k.replace(" ", "-") for k in MISTAKES])
def test_a_mistake_is_refused_with_its_place(tmp_path, text, line, words):
    for arguments in (["--check"], []):
        done = with_file(tmp_path, text, *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert f"s.ini:{line}:" in done.stderr, done.stderr
        for word in words:
            assert word in done.stderr, done.stderr


def test_all_mistakes_are_told_at_once(tmp_path):
    done = with_file(tmp_path, "[proxy]\nlissten = x\n[default]\nrate = 0/s\nmax_queue = -1\n", "--check")
    for line in (2, 4, 5):
        assert f"s.ini:{line}:" in done.stderr, done.stderr


def test_a_missing_file_is_named(tmp_path):
    done = run("-c", str(tmp_path / "none.ini"))
    assert done.returncode == 2 and "none.ini" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["-c"], ["-c", "x", "extra"]])
def test_a_wrong_command_line_points_at_the_help(arguments):
    done = run(*arguments)
    assert done.returncode == 2 and "sluice" in done.stderr


def test_a_taken_address_is_named(rig, origin):
    done = with_file(rig.directory, ini(proxy={"listen": origin.authority}))
    assert done.returncode == 1
    assert str(origin.port) in done.stderr and "change [proxy] listen" in done.stderr


def test_a_second_process_on_one_address_is_told_of_in_the_log(rig, origin):
    first = rig.sluice()
    second = rig.sluice(proxy={"listen": "%s:%d" % first.address})
    assert second.wait_event("listening_shared")[0]["address"].endswith(f":{first.address[1]}")
    assert first.events("listening_shared") == []
    assert [first.get(origin.url()).status for _ in range(8)] == [200] * 8


def test_long_section_names_and_ipv6_hosts_are_read_whole(rig):
    """Longer than the parser's own limits would let them be."""
    origin = rig.origin("::1")
    label = "a-third-party-with-a-name-that-is-longer-than-fifty-characters." + "x" * 60 + ".example"
    comment = "; " + "a long remark, rate = 1/1h, " * 30
    sluice = rig.sluice(ini(destinations={label: {"hosts": f"[0:0::1]:{origin.port}", "rate": "1000/s"}}) + comment + "\n")
    assert sluice.get(origin.url()).status == 200
    assert sluice.access()[0]["destination"] == label


def test_an_empty_file_is_a_proxy_with_all_defaults(tmp_path):
    done = with_file(tmp_path, "", "--dump-config")
    assert done.returncode == 0 and "127.0.0.1:3128" in done.stdout


def test_windows_line_ends_are_read(tmp_path):
    done = with_file(tmp_path, "[default]\r\nrate = 3/s\r\n", "--dump-config")
    assert (done.returncode, "3/s" in done.stdout) in ((0, True), (2, False))
