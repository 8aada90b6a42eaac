"""Runs other people's HTTP clients, unmodified, with the proxy set the way their users set it."""
import shutil
import subprocess

import pytest

from rig import environment

LONGEST_SECONDS = 60


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed here")


def env_for(sluice, home):
    """What a user exports; nothing of the machine's own settings gets in."""
    env = {k: v for k, v in environment().items() if not k.startswith(("GIT_", "npm_", "NODE_", "PYTHON", "APT_"))}
    env.update({"HOME": str(home), "LC_ALL": "C.UTF-8", "http_proxy": sluice.url, "HTTP_PROXY": sluice.url, "HTTPS_PROXY": sluice.url,
                "https_proxy": sluice.url, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"})
    return env


def run(sluice, directory, *command, ok=True):
    done = subprocess.run([str(word) for word in command], cwd=directory, env=env_for(sluice, directory), capture_output=True,
                          timeout=LONGEST_SECONDS, stdin=subprocess.DEVNULL, check=False)
    if ok:
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
    return done
