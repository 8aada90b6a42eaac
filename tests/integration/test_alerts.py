"""The alert rules that come with sluice: Prometheus takes them, they fire where they should, and all they name is there."""
import re
import shutil
import subprocess

import pytest

from oncall import Admin, api
from rig import ROOT, ini

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: apt-get install prometheus")
RULES = ROOT / "conf" / "prometheus" / "sluice-rules.yml"


@needs_promtool
@pytest.mark.parametrize("words", [("check", "rules", RULES), ("check", "config", RULES.with_name("prometheus.yml")),
                                   ("test", "rules", ROOT / "tests" / "alerts" / "rules-test.yml")], ids=["rules", "config", "firing"])
def test_promtool_finds_the_rules_in_order(words):
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_that_a_rule_names_is_there(rig, origin):
    redis = rig.redis()
    text = ini(redis={"url": redis.url}, destinations=api(origin)) + "[inbound shop]\nlisten = 127.0.0.1:0\nupstream = http://127.0.0.1:9\n"
    sluice = rig.sluice(text + "[admin]\nlisten = 127.0.0.1:0\n")
    assert sluice.get(origin.url("/")).status == 200
    metrics = Admin(sluice).metrics()
    named = set(re.findall(r"\b(?:sluice|process)_[a-z_]+\b", "".join(
        line for line in RULES.read_text().splitlines(True) if not re.match(r"\s+(- alert|summary|description|job_name):", line))))
    named -= {"sluice_status"}
    missing = {name for name in named if not re.search(rf"^{name}(\{{| )", metrics, re.M)}
    assert named and not missing


def test_every_alert_is_tried():
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    tried = set(re.findall(r'alertname="(\w+)"', (ROOT / "tests" / "alerts" / "rules-test.yml").read_text()))
    assert alerts == tried
