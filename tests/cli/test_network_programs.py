"""Programs of all kinds in a box with a network: each finds the proxy by itself, and gets through.

What is refused is refused by name before it is looked up, so these need no network.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(180)]

HOST = "evil.example"
URL = f"https://{HOST}/x"
JAVA = f"""
import java.net.*;
public class Get {{
    public static void main(String[] words) throws Exception {{
        new URL("{URL}").openConnection().getInputStream().read();
    }}
}}
"""
CARGO = """
[package]
name = "app"
version = "1.0.0"
[dependencies]
small = { version = "1", registry = "here" }
"""
GO = "module app\n\ngo 1.21\n\nrequire evil.example/small v1.0.0\n"
FILES = {
    "Get.java": JAVA,
    "Cargo.toml": CARGO,
    ".cargo/config.toml": f'[registries.here]\nindex = "sparse+https://{HOST}/index/"\n',
    "src/main.rs": "fn main() {}\n",
    "go.mod": GO,
    "main.go": 'package main\n\nimport _ "evil.example/small"\n\nfunc main() {}\n',
    "get.mjs": f'await fetch("{URL}");\n',
}
READ = (*FILES, "package.json")


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("curl", f"curl -sS {URL}"),
        ("wget", f"wget -q -t 1 -O /dev/null {URL}"),
        ("git", f"git ls-remote {URL}"),
        ("python3", f"python3 -c 'import urllib.request as u; u.urlopen(\"{URL}\")'"),
        ("pip", f"python3 -m pip --isolated download --retries 0 -i {URL} small"),
        ("uv", f"uv pip install --target $TMPDIR/t --no-cache --index-url {URL} small"),
        ("npm", f"npm view small --registry {URL} --cache $TMPDIR/npm --fetch-retries=0"),
        ("yarn", f"yarn add small --registry {URL} --cache-folder $TMPDIR/yarn"),
        ("node", "node get.mjs"),
        ("java", "java Get.java"),
        ("cargo", "CARGO_HOME=$TMPDIR/cargo CARGO_NET_RETRY=0 cargo fetch"),
        ("go", f"GOFLAGS=-mod=mod GOPROXY=https://{HOST} GOPATH=$TMPDIR/go go mod download"),
    ],
    ids=lambda text: text if text.isalnum() else "",
)
def test_a_program_asks_the_proxy(ws: Workspace, program: str, command: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    if program == "node" and not _node_reads_the_environment():
        pytest.skip("this node reads no proxy from its environment")
    for name, text in FILES.items():
        ws.write(name, text)
    ws.write("package.json", '{"name": "app", "private": true}')
    ws.task("get", command, box=Box(read=READ, write=("Cargo.lock",), network=("a.example",)))
    done = ws.vx("run", "get")
    assert done.code not in {0, 70}, done.text
    assert f"app#get connected to {HOST}:443, which nothing grants" in done.text
    assert 'sandbox.allow.network = ["a.example", "evil.example"]' in done.text


def _node_reads_the_environment() -> bool:
    said = subprocess.run(["node", "--version"], check=True, stdout=subprocess.PIPE).stdout
    major, minor = (int(part) for part in said.decode().strip("v\n").split(".")[:2])
    return major >= 24 or (major, minor) >= (22, 21)


def test_a_websocket_goes_through(ws: Workspace) -> None:
    def both(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(f"heard {message!r}")

    ws.write(
        "talk.py",
        """
import os, sys
from websockets.sync.client import connect

with connect(sys.argv[1], proxy=os.environ["HTTP_PROXY"]) as client:
    for message in ("one", "x" * 200_000, "three"):
        client.send(message)
        assert client.recv() == f"heard {message!r}"
    print("talked")
""",
    )
    with serve(both, "127.0.0.1", 0) as server:
        port = server.socket.getsockname()[1]
        with _serving(server):
            ws.task(
                "talk",
                f"{sys.executable} talk.py ws://127.0.0.1:{port}/",
                box=Box(read=("talk.py", sys.prefix), network=("127.0.0.1",)),
            )
            done = ws.vx("run", "talk")
    assert done.code == 0, done.text
    assert "talked" in done.text


@contextmanager
def _serving(server: Server) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


H2 = """
const http2 = require("http2"), fs = require("fs");
const server = http2.createSecureServer({
    key: fs.readFileSync("key.pem"), cert: fs.readFileSync("cert.pem"),
});
server.on("stream", (stream) => {
    stream.respond({":status": 200});
    stream.end("page");
});
server.listen(Number(process.argv[1]), "127.0.0.1");
"""


def test_http2_goes_through(ws: Workspace) -> None:
    for program in ("node", "openssl", "curl"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    port = ws.port()
    where = os.path.join(ws.logs, "h2")
    os.mkdir(where)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"),
        ],
        cwd=where,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    server = subprocess.Popen(["node", "-e", H2, str(port)], cwd=where)
    try:
        _wait_for(port)
        many = " ".join(f"https://127.0.0.1:{port}/{number} -o /dev/null" for number in range(20))
        ws.task(
            "get",
            f"curl -sSk -Z --noproxy '' --http2 -w '%{{http_version}} %{{http_code}}\\n' {many}",
            box=Box(network=(f"127.0.0.1:{port}",)),
        )
        done = ws.vx("run", "get")
    finally:
        server.kill()
        server.wait()
    assert done.code == 0, done.text
    assert done.text.count("2 200\n") == 20


def _wait_for(port: int) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < until, "the server does not come up"
            time.sleep(0.02)
        else:
            return
