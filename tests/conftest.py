"""Fixtures of all tests that run the real program, and what they leave behind when one fails.

Every test gets a rig of its own and so its own processes, ports and directory. When a test fails, the log of each
process that took part is added to the report. No test can hang: an alarm ends it, after the seconds of its mark `longest`
if it has one.
"""
import signal

import pytest

import rig as rigs

LONGEST_TEST_SECONDS = 90


@pytest.fixture
def rig(tmp_path):
    """Starts things on demand; at the end of the test all of them are stopped and must have behaved."""
    with rigs.Rig(tmp_path) as one:
        yield one


@pytest.fixture(scope="module")
def shared_rig(tmp_path_factory):
    """One rig for a whole file, for tables of cases that can't disturb each other."""
    with rigs.Rig(tmp_path_factory.mktemp("shared")) as one:
        yield one


@pytest.fixture
def origin(rig):
    return rig.origin()


def _too_long(_signal, _frame):
    raise TimeoutError("the test took too long")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    own = item.get_closest_marker("longest")
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(own.args[0] if own else LONGEST_TEST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for name, text in rigs.logs_of_living():
            report.sections.append((name, text))


def pytest_terminal_summary(terminalreporter):
    """What tests measured, in whichever process: record_property("figure", a line)."""
    lines = [value for report in terminalreporter.getreports("passed") for name, value in report.user_properties if name == "figure"]
    for line in sorted(set(lines)):
        terminalreporter.write_line(line)
