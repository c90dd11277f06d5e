"""Sandboxed tasks and the network: what is reached, what is refused, and what is then said."""

import shutil
import socket
import urllib.request

import pytest

from tests.harness.proxy import origin, read_to
from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(180)]

ASK = "curl -sS -m 20 --noproxy ''"
NPM, PYPI = "registry.npmjs.org", ("pypi.org", "files.pythonhosted.org")
_needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")


def page(client: socket.socket) -> None:
    read_to(client, b"\r\n\r\n")
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage")


@_needs_curl
def test_a_granted_host_is_reached(ws: Workspace) -> None:
    with origin(page) as port:
        ws.task("get", f"{ASK} http://127.0.0.1:{port}/", box=Box(network=(f"127.0.0.1:{port}",)))
        done = ws.vx("run", "get")
    assert done.code == 0, done.text
    assert "page" in done.text
    ws.nothing_left()


@_needs_curl
def test_a_refused_host_fails_a_task_that_swallows_it(ws: Workspace) -> None:
    ws.task("get", f"{ASK} https://evil.example/ || true", box=Box(network=("a.example",)))
    done = ws.vx("run", "get")
    assert done.code not in {0, 70}
    assert "connected to evil.example:443, which nothing grants" in done.text
    grant = 'allow it: tasks.get.sandbox.allow.network = ["a.example", "evil.example"]'
    assert grant in done.text
    ws.nothing_left()


@_needs_curl
def test_what_was_refused_on_both_ways_is_told_once(ws: Workspace) -> None:
    url = "http://192.0.2.7:99/"
    command = f"{ASK} {url} -o /dev/null; curl -sS -m 20 --noproxy '*' {url}; true"
    ws.task("get", command, box=Box(network=("a.example",)))
    done = ws.vx("run", "get")
    assert done.code == 1, done.text
    assert done.text.count("connected to 192.0.2.7:99") == 1
    assert done.text.count("allow it: tasks.get.sandbox.allow.network = ") == 1
    assert "HTTP_PROXY" not in done.text


@_needs_curl
@pytest.mark.parametrize("granted", ["", 'network = ["a.example"]'], ids=["none", "one"])
def test_what_the_proxy_refused_is_learned(ws: Workspace, granted: str) -> None:
    with origin(page) as port:
        url = f"http://127.0.0.1:{port}/"
        config = f"[tasks.get]\ncommand = \"curl -fsS -m 20 --noproxy '' {url}\"\n"
        ws.write("vx.toml", f"{config}[tasks.get.sandbox.allow]\n{granted}\n")
        done = ws.vx("run", "--learn", "get")
        _, _, table = done.out.partition("[tasks.get.sandbox.allow]\n")
        learned = table.partition("#")[0]
        assert '"127.0.0.1"]\n' in learned, done.text
        assert ('"a.example"' in learned) == bool(granted)
        assert "nothing.invalid" not in done.text
        ws.write("vx.toml", f"{config}[tasks.get.sandbox.allow]\n{learned}\n")
        done = ws.vx("run", "get")
    assert done.code == 0, done.text
    ws.nothing_left()


@_needs_curl
def test_what_is_ignored_is_refused_in_silence(ws: Workspace) -> None:
    ws.write(
        "vx.toml",
        f"""
        [tasks.get]
        command = "{ASK} https://evil.example/ || echo refused"
        [tasks.get.sandbox]
        allow = {{ read = ["."], network = ["a.example"] }}
        ignore = {{ network = ["evil.example"] }}
        """,
    )
    done = ws.vx("run", "get")
    assert done.code == 0, done.text
    assert "refused" in done.text
    assert "nothing grants" not in done.text


@_needs_curl
def test_one_task_has_nothing_of_what_another_is_granted(ws: Workspace) -> None:
    with origin(page) as port:
        for name, grant in (("one", f"127.0.0.1:{port}"), ("two", "a.example")):
            other = {"one": "two", "two": "one"}[name]
            meet = f"touch $LOGS/.{name}; until [ -e $LOGS/.{other} ]; do sleep 0.05; done"
            ask = f"{ASK} http://127.0.0.1:{port}/"
            ws.task(name, f"{meet}; {ask} -o $LOGS/got-{name}", box=Box(network=(grant,)))
        done = ws.vx("run", "one", "two", "--concurrency", "2")
    assert done.code not in {0, 70}
    with open(f"{ws.logs}/got-one") as one, open(f"{ws.logs}/got-two") as two:
        assert one.read() == "page"
        assert (
            two.read()
            == f"the sandbox of this task refuses 127.0.0.1:{port}, which nothing grants\n"
        )
    assert f"two connected to 127.0.0.1:{port}, which nothing grants" in done.text
    assert "one connected" not in done.text


@_needs_curl
def test_a_server_has_its_proxy_too(ws: Workspace) -> None:
    port = ws.port()
    with origin(page) as other:
        command = f"{ASK} -o $LOGS/got http://127.0.0.1:{other}/ ; {ws.serve('web', port)}"
        box = Box(ports=(port,), network=(f"127.0.0.1:{other}",))
        ws.server("web", command, ready_line="READY", box=box)
        vx = ws.watch("web")
        vx.wait_says("READY")
        assert vx.stop() == 0
    with open(f"{ws.logs}/got") as file:
        assert file.read() == "page"
    ws.nothing_left()


@_needs_curl
def test_what_a_server_is_refused_is_told_while_it_goes_on(ws: Workspace) -> None:
    port = ws.port()
    command = f"{ASK} https://evil.example/; {ws.serve('web', port)}"
    ws.server("web", command, ready_line="READY", box=Box(ports=(port,), network=("a.example",)))
    vx = ws.watch("web")
    vx.wait_says("web connected to evil.example:443, which nothing grants")
    vx.wait_says("allow it: tasks.web.sandbox.allow.network = ")
    vx.wait_says("READY")
    assert vx.stop() == 0
    ws.nothing_left()


def test_what_a_proxy_must_not_be_given(ws: Workspace) -> None:
    for host, why in (
        ("https://a.example", "without a scheme"),
        ("a.example/x", "without a path"),
        ("*.com", "too wide"),
        ("a.example:0", "a port is a number"),
    ):
        ws.write("vx.toml", f'[tasks.t]\ncommand = "true"\nsandbox.allow.network = ["{host}"]\n')
        done = ws.vx("run", "t")
        assert done.code not in {0, 70}
        assert f'"{host}": ' in done.text
        assert why in done.text


def _reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except OSError:
        return False


@pytest.mark.timeout(300)
@pytest.mark.skipif(not shutil.which("npm"), reason="needs npm")
def test_npm_installs_with_its_registry_granted_and_fails_by_name_without(ws: Workspace) -> None:
    if not _reachable(f"https://{NPM}/is-number"):
        pytest.skip("no npm registry is reachable")
    ws.write("package.json", '{"name": "app", "dependencies": {"is-number": "7.0.0"}}')
    ws.environment = {**ws.environment, "npm_config_cache": "/tmp/npm"}
    write = (".", "package.json", "node_modules/")
    for name, network in (("closed", ("a.example",)), ("install", (NPM,))):
        ws.task(
            name,
            "npm install --no-audit --no-fund --loglevel=error --cache=$TMPDIR/npm --fetch-retries=0",
            box=Box(read=("~/.npmrc", "~/.npm"), write=write, network=network),
        )
    refused = ws.vx("run", "closed")
    assert refused.code not in {0, 70}
    assert f"connected to {NPM}:443, which nothing grants" in refused.text
    done = ws.vx("run", "install")
    assert done.code == 0, done.text
    assert '"version": "7.0.0"' in ws.read("node_modules/is-number/package.json")


@pytest.mark.timeout(300)
def test_pip_downloads_with_its_index_granted_and_fails_by_name_without(ws: Workspace) -> None:
    if not all(_reachable(f"https://{host}/") for host in PYPI[:1]):
        pytest.skip("no Python package index is reachable")
    for name, network in (("closed", ("a.example",)), ("get", PYPI)):
        ws.task(
            name,
            "python3 -m pip --isolated --no-cache-dir --disable-pip-version-check download --retries 0"
            " --no-deps --no-binary :none: -d $LOGS/wheels iniconfig==2.0.0 -i https://pypi.org/simple",
            box=Box(network=network),
        )
    refused = ws.vx("run", "closed")
    assert refused.code not in {0, 70}
    assert "connected to pypi.org:443, which nothing grants" in refused.text
    done = ws.vx("run", "get")
    assert done.code == 0, done.text
