"""What programs are told about the proxy in their box, each in the way that it understands.

Programs that understand none of it meet a network that is not there.
"""

from collections.abc import Mapping

FIRST_PORT = 61080
"""Beyond the ports that kernels hand out, and known for nothing."""

_LOCAL = "localhost,127.0.0.1,::1"
_JAVA_LOCAL = "localhost|127.*|[::1]"
_JAVA = "JAVA_TOOL_OPTIONS"


def proxy_port(taken: frozenset[int]) -> int:
    """The port of the box's loopback at which its proxy listens."""
    return next(
        port for port in range(FIRST_PORT, FIRST_PORT + len(taken) + 1) if port not in taken
    )


def proxy_environment(
    port: int, environment: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """The variables to set beside those of the environment; `own` are what the task itself sets.

    What a task sets stays, and Java's options come after ours, so that they count. The proxy speaks
    SOCKS5 at the same port; no variable says so, because some libraries cannot load for one that
    does (httpx without its extra).
    """
    url = f"http://127.0.0.1:{port}"
    variables = dict.fromkeys(
        (
            *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
            *("npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"),
            *("PIP_PROXY", "CARGO_HTTP_PROXY"),
        ),
        url,
    )
    variables |= dict.fromkeys(("NO_PROXY", "no_proxy", "npm_config_noproxy"), _LOCAL)
    variables["NODE_USE_ENV_PROXY"] = "1"
    variables = {name: own.get(name, value) for name, value in variables.items()}
    given = environment.get(_JAVA)
    return {**variables, _JAVA: " ".join(filter(None, (_java(port), given)))}


def _java(port: int) -> str:
    options = [
        f"-D{scheme}.{name}={value}"
        for scheme in ("http", "https")
        for name, value in (("proxyHost", "127.0.0.1"), ("proxyPort", port))
    ]
    return " ".join((*options, f"-Dhttp.nonProxyHosts={_JAVA_LOCAL}"))
