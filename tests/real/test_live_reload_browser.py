"""Live reload in a real Chromium: a plain Python server, and Vite, whose own updates go on."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.harness.browsing import CHROMIUM, LOADED
from tests.harness.ports import is_free
from tests.harness.webapp import UI, WEB, WebApp
from tests.harness.workspace import Box, Workspace, get

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not os.path.exists(CHROMIUM), reason="needs Chromium"),
]

OVERLAY = "vx-live-reload"
LOADS = "sessionStorage.loads = +(sessionStorage.loads || 0) + 1"


@pytest.fixture
def tabs(browser: Browser) -> Iterator[BrowserContext]:
    """Tabs that share what a browser's tabs share; each counts how often it loaded a page."""
    context = browser.new_context()
    context.set_default_timeout(LOADED)
    context.add_init_script(f"if (window === window.top) {LOADS}")
    yield context
    context.close()


@pytest.fixture
def ws(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Workspace]:
    ws = Workspace(str(tmp_path / "ws"), str(tmp_path / "logs"), free_port)
    yield ws
    ws.close()


def site(ws: Workspace, *, csp: str = "") -> int:
    """Python's own web server over dist/, which a task makes of src/."""
    port = ws.port()
    ws.write(".gitignore", "dist/\n")
    ws.write("src/index.html", page("v0", csp))
    ws.task(
        "build",
        "cat src/index.html; ! grep -q BAD src/* && mkdir -p dist && cp src/* dist",
        inputs=["src/**"],
        outputs=["dist/**"],
    )
    ws.server(
        "web",
        f"exec /usr/bin/python3 -m http.server {port} --bind 127.0.0.1 --directory dist",
        ready_port=port,
        after=["build"],
        follows=False,
        live_reload=True,
        box=Box(read=(".",), ports=(port,)),
    )
    return port


def page(text: str, csp: str = "") -> str:
    policy = f'<meta http-equiv="Content-Security-Policy" content="{csp}">' if csp else ""
    return f"<!doctype html><html><head>{policy}<title>t</title></head><h1>{text}</h1></html>"


def shows(tab: Page, text: str) -> None:
    expect(tab.locator("h1").first).to_have_text(text, timeout=LOADED)


def loads(tab: Page) -> int:
    return int(tab.evaluate("+sessionStorage.loads"))


def connected(tab: Page) -> None:
    """Wait until one tab of this browser listens to the channel."""
    tab.wait_for_function(
        "navigator.locks.query().then(({held}) => held.some(({name}) => name.startsWith('vx live')))"
    )


def opened(tabs: BrowserContext, port: int, path: str = "/") -> Page:
    tab = tabs.new_page()
    tab.goto(f"http://localhost:{port}{path}")
    connected(tab)
    return tab


def test_a_page_reloads_once_for_each_good_cycle(ws: Workspace, tabs: BrowserContext) -> None:
    port = site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    tab = opened(tabs, port)
    shows(tab, "v0")
    assert tab.evaluate("document.compatMode") == "CSS1Compat"
    for number in (1, 2, 3):
        ws.replace("src/index.html", page(f"v{number}"))
        shows(tab, f"v{number}")
        connected(tab)
    ws.settle()
    assert loads(tab) == 4
    assert vx.stop() == 0
    assert is_free(port)


def test_a_failed_cycle_lies_over_the_page_until_it_is_mended(
    ws: Workspace, tabs: BrowserContext
) -> None:
    port = site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    tab = opened(tabs, port)
    bad = '</pre><img src=x onerror="window.broken = 1">BAD'
    ws.replace("src/index.html", bad)
    overlay = tab.locator(OVERLAY)
    expect(overlay.locator("h1")).to_contain_text("#build failed with exit 1")
    expect(overlay.locator("pre")).to_have_text(bad)
    assert tab.evaluate("window.broken") is None
    late = opened(tabs, port)
    expect(late.locator(f"{OVERLAY} pre")).to_have_text(bad)
    late.keyboard.press("Escape")
    expect(late.locator(OVERLAY)).to_have_count(0)
    ws.replace("src/index.html", page("v1"))
    for one in (tab, late):
        shows(one, "v1")
        expect(one.locator(OVERLAY)).to_have_count(0)
    assert vx.stop() == 0


def test_more_tabs_than_a_browser_has_connections_reload(
    ws: Workspace, tabs: BrowserContext
) -> None:
    port = site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    many = [opened(tabs, port) for _ in range(9)]
    ws.replace("src/index.html", page("v1"))
    for tab in many:
        shows(tab, "v1")
    many.pop(0).close()  # the one that listened for all
    connected(many[0])
    ws.replace("src/index.html", page("v2"))
    for tab in many:
        shows(tab, "v2")
        assert loads(tab) == 3
    assert vx.stop() == 0


def test_tabs_come_back_after_vx_was_restarted(ws: Workspace, tabs: BrowserContext) -> None:
    port = site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    tab = opened(tabs, port)
    shows(tab, "v0")
    assert vx.stop() == 0
    ws.replace("src/index.html", page("v1"))
    vx = ws.watch("web")
    shows(tab, "v1")
    assert vx.stop() == 0


def test_a_page_in_a_frame_reloads_with_the_page_around_it(
    ws: Workspace, tabs: BrowserContext
) -> None:
    port = site(ws)
    ws.write("src/frame.html", "<h1>around</h1><iframe src='/'></iframe>")
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    tab = opened(tabs, port, "/frame.html")
    inner = tab.frame_locator("iframe").locator("h1")
    expect(inner).to_have_text("v0")
    ws.replace("src/index.html", page("v1"))
    expect(inner).to_have_text("v1")
    assert loads(tab) == 2
    assert vx.stop() == 0


def test_a_strict_policy_of_the_page_still_lets_it_reload(
    ws: Workspace, tabs: BrowserContext
) -> None:
    port = site(ws, csp="default-src 'self'; style-src 'none'; require-trusted-types-for 'script'")
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    tab = opened(tabs, port)
    ws.write("src/other", "BAD")
    overlay = tab.locator(f"{OVERLAY} section")
    expect(overlay).to_have_css("position", "absolute")
    os.unlink(ws.file("src/other"))
    ws.replace("src/index.html", page("v1"))
    shows(tab, "v1")
    assert vx.stop() == 0


def test_a_page_of_another_origin_hears_nothing(ws: Workspace, tabs: BrowserContext) -> None:
    port = site(ws)
    vx = ws.watch("web")
    vx.wait_says("^cycle 1: ")
    found = re.search(r'"(/__vx__/\w+/)', get(port))
    assert found
    channel = f"http://localhost:{port}{found[1]}"
    tab = tabs.new_page()
    tab.goto(f"http://127.0.0.1:{port}/")  # the same server under another name
    heard = tab.evaluate(
        """async (channel) => {
          const source = new EventSource(channel + "events");
          const stream = await new Promise((done) => {
            source.onopen = () => done("open");
            source.onerror = () => done("error");
          });
          const script = await new Promise((done) => {
            const element = document.createElement("script");
            element.onload = () => done("loaded");
            element.onerror = () => done("error");
            element.src = channel + "reload.js";
            document.head.append(element);
          });
          const read = await fetch(channel + "events").then(() => "read", () => "error");
          return [stream, script, read];
        }""",
        channel,
    )
    assert heard == ["error", "error", "error"]
    assert vx.stop() == 0


@pytest.fixture
def app(
    tmp_path: Path, browser: Browser, modules: str, free_port: Callable[[], int]
) -> Iterator[WebApp]:
    """The example application; its site, which Vite serves, has live reload."""
    app = WebApp(str(tmp_path / "app"), str(tmp_path / "logs"), modules, free_port)
    app.edit("apps/web/vx.toml", r"ready_port = 5173", "ready_port = 5173\nlive_reload = true")
    yield app
    app.close()


def test_vite_updates_its_pages_itself_and_shows_what_it_cannot_know(
    app: WebApp, tabs: BrowserContext
) -> None:
    vx = app.up()
    tab = tabs.new_page()
    sockets: list[str] = []
    tab.on("websocket", lambda socket: sockets.append(socket.url))
    with tab.expect_console_message(lambda message: "[vite] connected" in message.text):
        tab.goto(f"http://localhost:{app.web}/")
    connected(tab)
    expect(tab.locator("#title")).to_contain_text("Hello from web")
    app.edit(WEB, r'".*"', '"Edited"')
    expect(tab.locator("#title")).to_contain_text("Edited")
    with open(app.file("packages/ui/dist/index.js"), encoding="utf-8") as before:
        app.edit(UI, r"Made of small parts", "Made of one more part")
        expect(tab.locator("#tagline")).to_contain_text("Made of one more part")
        # Replaced, not overwritten: Vite reads at the first change and keeps what it read.
        assert "Made of small parts" in before.read()
    vx.wait_says(r"^cycle 2: 1 ran, 0 failed")
    app.edit(UI, r'tagline = ".*"', "tagline = ")
    expect(tab.locator(f"{OVERLAY} pre")).to_contain_text('[ERROR] Unexpected ";"')
    app.edit(UI, r"tagline = ", 'tagline = "Mended"')
    expect(tab.locator("#tagline")).to_contain_text("Mended")
    expect(tab.locator(OVERLAY)).to_have_count(0)
    assert loads(tab) == 1
    assert [url.partition("?")[0] for url in sockets] == [f"ws://localhost:{app.web}/"]
    assert vx.stop() == 0
    app.wait_gone()
