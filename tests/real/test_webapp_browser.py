"""The example web application in a real Chromium, through everything a save can do to it."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.harness.browsing import LOADED
from tests.harness.webapp import API, UI, WEB, WebApp
from tests.harness.workspace import get

pytestmark = [
    pytest.mark.browser,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture
def app(
    tmp_path: Path, browser: Browser, modules: str, free_port: Callable[[], int]
) -> Iterator[WebApp]:
    app = WebApp(str(tmp_path / "app"), str(tmp_path / "logs"), modules, free_port)
    yield app
    app.close()


@pytest.fixture
def page(app: WebApp, browser: Browser) -> Iterator[Page]:
    """A page that is not open yet; its state is its own."""
    context = browser.new_context()
    context.set_default_timeout(LOADED)
    yield context.new_page()
    context.close()


def visit(page: Page, app: WebApp) -> None:
    """Open the site, wait until it shows all it has, and mark the page: a reload forgets the mark."""
    with page.expect_console_message(lambda message: "[vite] connected" in message.text):
        page.goto(f"http://localhost:{app.web}/")
    shows(page, "#cards", "Hello from api")
    page.evaluate("window.mark = 'kept'")


def shows(page: Page, where: str, text: str) -> None:
    expect(page.locator(where)).to_contain_text(text, timeout=LOADED)


def kept(page: Page) -> bool:
    """Whether the page was not loaded again since `visit`."""
    return bool(page.evaluate("window.mark === 'kept'"))


def test_the_page_shows_text_from_every_part(app: WebApp, page: Page) -> None:
    vx = app.up()
    assert vx.says(rf"web#dev ready.* http://localhost:{app.web}$")
    assert vx.says(rf"api#dev ready.* http://localhost:{app.api}$")
    visit(page, app)
    shows(page, "#title", "Hello from web")
    shows(page, "#tagline", "Made of small parts")
    page.goto(f"http://127.0.0.1:{app.web}/")
    shows(page, "#cards", "Hello from api")
    assert json.loads(get(app.api, "/api/status"))["message"] == "Hello from api"
    assert vx.stop() == 0
    app.wait_gone()


def test_an_edit_of_the_site_arrives_without_a_reload(app: WebApp, page: Page) -> None:
    vx = app.up()
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    visit(page, app)
    before = app.pids()
    for number in range(3):
        app.edit(WEB, r'".*"', f'"Edit {number}"')
        shows(page, "#title", f"Edit {number}")
        # Vite's own watcher drops a change that comes within 50 ms of the one before.
        page.wait_for_timeout(100)
    assert kept(page)
    assert [url.partition("?")[0] for url in sockets] == [f"ws://localhost:{app.web}/"]
    assert app.pids() == before
    assert vx.stop() == 0


def test_an_edit_of_the_library_builds_it_alone(app: WebApp, page: Page) -> None:
    vx = app.up()
    visit(page, app)
    before = app.pids()
    app.edit(UI, r"Made of small parts", "Made of one more part")
    shows(page, "#tagline", "Made of one more part")
    vx.wait_says(rf"^cycle 2: 1 ran, 0 failed, .* - {UI}$")
    assert app.pids() == before
    assert kept(page)
    assert len(ready_lines(vx.output)) == 2
    assert vx.stop() == 0


def test_an_edit_of_the_api_restarts_it_alone_and_loses_no_request(app: WebApp, page: Page) -> None:
    vx = app.up()
    visit(page, app)
    before = app.pids()
    with Callers((app.api, app.web) * 4) as callers:
        callers.wait_for_answer("Hello from api")
        app.edit(API, r"Hello from api", "Hello again")
        callers.wait_for_answer("Hello again")
    assert callers.failures == []
    after = app.pids()
    assert after.web == before.web
    assert after.api != before.api
    vx.wait_says(r"api#dev ready again")
    assert kept(page)
    page.reload()
    shows(page, "#cards", "Hello again")
    assert vx.stop() == 0


def test_a_broken_library_stops_nothing_and_its_fix_recovers(app: WebApp, page: Page) -> None:
    vx = app.up()
    visit(page, app)
    before = app.pids()
    app.edit(UI, r'tagline = ".*"', "tagline = ")
    vx.wait_says(r"ui#build failed", 30)
    vx.wait_says(r'\[ERROR\] Unexpected ";"', 30)
    vx.wait_says(r"^cycle 2: .* 1 failed", 30)
    page.reload()
    shows(page, "#tagline", "Made of small parts")
    shows(page, "#cards", "Hello from api")
    page.evaluate("window.mark = 'kept'")
    app.edit(UI, r"tagline = ", 'tagline = "Mended"')
    shows(page, "#tagline", "Mended")
    vx.wait_says(r"^cycle 3: 1 ran, 0 failed", 30)
    assert app.pids() == before
    assert vx.stop() == 0


def test_tests_and_types_follow_a_save(app: WebApp) -> None:
    vx = app.up("test", "check")
    app.edit(UI, r"Made of small parts", "Made of one more part")
    vx.wait_says(rf"^cycle 2: 4 ran, 0 failed, .* - {UI}$", 60)
    app.edit(API, r'"requests": requests', '"requests": requests + 1')
    vx.wait_says(r"api#test failed", 60)
    vx.wait_says(r"AssertionError: 4 != 3")
    app.edit(WEB, r'".*"', "1 as string")
    vx.wait_says(r"web#check failed", 60)
    assert vx.stop() == 0


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name
)
def test_nothing_is_left_after_a_signal(app: WebApp, page: Page, number: signal.Signals) -> None:
    vx = app.up()
    visit(page, app)
    vx.send(number)
    app.wait_gone()
    assert vx.ended() == (137 if number == signal.SIGKILL else 0)
    assert app.dirt() == []


def test_nothing_is_left_after_ctrl_c(app: WebApp, page: Page) -> None:
    vx = app.terminal("watch", "dev", "--all")
    vx.wait_says(r"cycle 1: ", 60)
    visit(page, app)
    vx.press(b"\x03")
    app.wait_gone()
    assert vx.ended() == 0
    assert vx.restored


def test_run_dev_holds_the_servers_in_the_foreground(app: WebApp, page: Page) -> None:
    vx = app.start("run", "dev", "--all")
    vx.wait_says(r"web#dev ready", 60)
    visit(page, app)
    assert vx.running
    assert vx.stop() == 130
    app.wait_gone()


def ready_lines(output: str) -> list[str]:
    """What vx said about servers that got ready."""
    return [line for line in output.splitlines() if "#dev ready" in line]


class Callers:
    """Threads that ask for the API's status again and again, one for each of the given ports."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._answers = [""] * len(ports)
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._call, args=row) for row in enumerate(ports)]
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wait_for_answer(self, message: str, seconds: float = 30.0) -> None:
        """Wait until everyone's latest answer says this."""
        with self._changed:
            everyone = self._changed.wait_for(lambda: set(self._answers) == {message}, seconds)
        assert everyone, (self._answers, self.failures)

    def _call(self, number: int, port: int) -> None:
        while not self._ended.wait(0.01):
            try:
                message = json.loads(get(port, "/api/status"))["message"]
            except (OSError, AssertionError, ValueError) as error:
                message = f"failed: {error!r}"
                self.failures.append(f"port {port} {message}")
            with self._changed:
                self._answers[number] = message
                self._changed.notify_all()
