"""Fields that a destination has set, dropped, or insists on: what the third party sees, and what the caller is told."""
import json

import pytest

from pki import Pki, TlsOrigin
from rig import ini, with_file

AGENT = "acme-orders/2.1 (ops@acme.example, +1; a#b)"


def destination(rig, origin, **keys):
    return rig.sluice(destinations={"third": {"hosts": origin.authority, **keys}})


def test_a_field_is_set_instead_of_all_the_callers_and_in_their_place(rig, origin):
    sluice = destination(rig, origin, set_header=f"User-Agent: {AGENT}")
    sluice.get(origin.url("/a"), "X-A: 1", "user-agent: curl/8", "X-B: 2", "User-Agent: again")
    seen = origin.to("/a")[0]
    assert seen.all("User-Agent") == [AGENT]
    assert [name for name, _ in seen.without("Host", "Via", "Connection")] == ["X-A", "User-Agent", "X-B"]


def test_a_field_is_added_where_there_was_none_even_if_the_caller_nominates_it_away(rig, origin):
    sluice = destination(rig, origin, set_header="User-Agent: acme/1.0")
    sluice.get(origin.url("/none"))
    sluice.get(origin.url("/away"), "Connection: User-Agent", "User-Agent: mine")
    assert origin.to("/none")[0].all("User-Agent") == ["acme/1.0"]
    assert origin.to("/away")[0].all("User-Agent") == ["acme/1.0"]


def test_several_fields_are_set_by_several_lines_and_others_dropped(rig, origin):
    text = ini(destinations={"third": {"hosts": origin.authority, "set_header": "A: 1, 2", "drop_header": "X-Trace, x-span"}})
    sluice = rig.sluice(text.replace("set_header = A: 1, 2\n", "set_header = A: 1, 2\nset_header = B: 3\n"))
    sluice.get(origin.url("/x"), "X-Trace: a", "X-Span: b", "X-Trace: c", "X-Kept: d")
    seen = origin.to("/x")[0]
    assert (seen.get("A"), seen.get("B"), seen.get("X-Kept")) == ("1, 2", "3", "d")
    assert seen.all("X-Trace") == seen.all("X-Span") == []


@pytest.mark.parametrize("headers", [[], ["Connection: user-agent", "User-Agent: a"]])
def test_a_request_without_a_required_field_is_refused_by_name_and_takes_no_slot(rig, origin, headers):
    sluice = destination(rig, origin, rate="1/2s", require_header="User-Agent, X-Key")
    for _ in range(3):
        response = sluice.get(origin.url("/no"), "X-Key: k", *headers)
        assert response.status == 400 and response.get("Proxy-Status").startswith("sluice; error=http_request_error")
        problem = json.loads(response.body)
        assert problem["reason"] == "header_missing" and "User-Agent" in problem["detail"]
    assert sluice.get(origin.url("/yes"), "X-Key: k", "User-Agent: me").status == 200
    assert [r.path for r in origin.requests] == ["/yes"]
    sluice.access(verdict="header_missing", status=400, count=3)


def test_fields_that_frame_a_message_are_refused_at_the_start(rig):
    for line in ("Transfer-Encoding: chunked", "Host: a", "Connection: close"):
        result = with_file(rig.directory, ini(destinations={"a.test:80": {"set_header": line}}), "--check")
        assert result.returncode != 0 and line.split(":")[0] in result.stderr


def test_where_callers_do_the_tls_it_is_refused_at_the_start_with_what_to_do(rig):
    result = with_file(rig.directory, ini(destinations={"api.test": {"set_header": "A: 1"}}), "--check")
    assert result.returncode != 0 and "https = originate or intercept" in result.stderr


def test_a_field_is_set_where_tls_begins_here(rig):
    pki = Pki(rig.directory)
    origin = rig.add(TlsOrigin(pki.issue()))
    keys = {"hosts": f"localhost:{origin.port}, 127.0.0.1:{origin.port}", "https": "originate", "ca_file": pki.ca}
    sluice = rig.sluice(destinations={"api": {**keys, "set_header": "User-Agent: acme/1.0"}})
    assert sluice.get(origin.url("/a"), "User-Agent: mine").status == 200
    assert origin.requests[0].all("User-Agent") == ["acme/1.0"]
