"""The page of operators in a real browser: it follows what happens, its buttons act, and it asks nobody else for anything."""
import pytest
from browser import PROGRAM, Browser
from oncall import api, ask_away, operated

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed here")
CARD = "[...document.querySelectorAll('article')].find(a => a.querySelector('h2').textContent === '%s')"


@pytest.fixture
def browser(rig):
    return rig.add(Browser())


def card(name, rest):
    return f"({CARD % name})?.{rest}"


def test_it_says_how_to_send_the_first_request_and_then_shows_it(rig, origin, browser):
    admin = operated(rig, destinations=api(origin, rate="1/1h", max_wait="10h"))
    browser.go(admin.url + "/")
    browser.wait("!document.getElementById('empty').hidden")
    assert f"HTTP_PROXY={admin.sluice.url}" in browser.look("document.getElementById('first').textContent")
    assert admin.sluice.get(origin.url("/")).status == 200
    ask_away(admin.sluice, origin.url("/"), 3)
    browser.wait("document.getElementById('empty').hidden")
    browser.wait(card("api", "querySelector('[data-key=waiting]').textContent === '3 of 1000'"))
    browser.wait(card("api", "querySelector('.pill').textContent === 'waiting'"))
    assert browser.look(card("api", "querySelector('.came').getAttribute('d').length")) > 10  # bars above
    assert browser.look(card("api", "querySelector('.gone').getAttribute('d').length")) > 10  # and below
    browser.wait("document.getElementById('callers').innerText.includes('127.0.0.1')")
    assert browser.complaints() == []


def test_its_buttons_pause_and_resume_also_by_keyboard(rig, origin, browser):
    redis = rig.redis()
    fleet = [operated(rig, redis={"url": redis.url}, destinations=api(origin)) for _ in range(2)]
    browser.go(fleet[0].url + "/")
    browser.wait("document.querySelector('[data-key=replicas]')?.textContent === '2'")
    browser.look(card("api", "querySelector('button').click()"))
    for admin in fleet:
        admin.when("api", lambda row: row["paused_us"] > 200e6)
    browser.wait(card("api", "querySelector('.pill').textContent.startsWith('paused, 4 min 5')"))
    assert "on every replica" in browser.look("document.getElementById('word').textContent")
    browser.wait(card("api", "querySelectorAll('button')[1].disabled === false"))
    browser.look(card("api", "querySelector('select').focus()"))
    browser.press("Tab", 9)
    assert browser.look("document.activeElement.getAttribute('aria-label')") == "Resume api"
    browser.press("Enter", 13, "\r")
    for admin in fleet:
        admin.when("api", lambda row: row["paused_us"] == 0)
    browser.wait(card("api", "querySelector('.pill').textContent === 'flowing'"))
    assert fleet[1].order("set-rate", destination="api", rate="30/1m", seconds=600)[0] == 200
    browser.wait(f"({CARD % 'api'}).innerText.includes('30 a minute')")
    assert browser.look(f"({CARD % 'api'}).innerText.includes('ordered by 127.0.0.1')")
    assert browser.complaints() == []


def test_it_asks_for_a_token_and_for_nothing_elsewhere(rig, browser):
    admin = operated(rig, "ann 0123456789abcdef\n")
    browser.go(admin.url + "/")
    browser.wait("!document.getElementById('login').hidden")
    browser.look("document.getElementById('token').value = '0123456789abcdef'; document.querySelector('#login button').click()")
    browser.wait("document.getElementById('ready').textContent === 'ready'")
    browser.look("document.getElementById('level').value = 'debug'; document.getElementById('level').dispatchEvent(new Event('change'))")
    admin.sluice.wait_event("control", verb="log-level", client="ann@127.0.0.1")
    assert {url for url in browser.asked() if not url.startswith(("data:", "about:"))} == {
        f"{admin.url}/", f"{admin.url}/events", f"{admin.url}/control/log-level"}
    assert [said for said in browser.complaints() if "401" not in said] == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_can_be_read_in_light_and_dark(rig, origin, browser, dark):
    admin = operated(rig, destinations={"a-destination-with-quite-a-long-name.example.com": {}, **api(origin)})
    admin.sluice.get(origin.url("/"))
    browser.resize(360, 740, dark)
    browser.go(admin.url + "/")
    browser.wait("document.querySelectorAll('article').length === 3")
    assert browser.look("document.documentElement.scrollWidth") <= 360
    # contrast of text and ground by WCAG 2.1, 4.5 at least
    ratio = """(() => {
      const light = c => { const [r, g, b] = c.match(/\\d+/g).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
                           return .2126 * r + .7152 * g + .0722 * b; };
      const ground = light(getComputedStyle(document.querySelector('article')).backgroundColor);
      return Math.min(...[...document.querySelectorAll('article h2, article dt, article dd, article .note, article .pill')].map(node => {
        const ink = light(getComputedStyle(node).color);
        return (Math.max(ink, ground) + .05) / (Math.min(ink, ground) + .05); }));
    })()"""
    assert browser.look(ratio) >= 4.5


def test_it_says_when_sluice_is_gone(rig, browser):
    admin = operated(rig)
    browser.go(admin.url + "/")
    browser.wait("document.getElementById('live').textContent === 'live'")
    admin.sluice.stop()
    browser.wait("document.getElementById('live').textContent.includes('trying again')")
    assert browser.look("document.getElementById('ready').textContent") == "unknown"
