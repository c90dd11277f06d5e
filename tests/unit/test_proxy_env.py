"""What programs are told about the proxy of their box."""

from vxwatch.sandbox.proxy_env import FIRST_PORT, proxy_environment, proxy_port

URL = "http://127.0.0.1:61080"


def test_every_family_of_programs_finds_it() -> None:
    told = proxy_environment(61080, {}, {})
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY", "npm_config_https_proxy", "PIP_PROXY"):
        assert told[name] == URL
    assert told["NO_PROXY"] == told["no_proxy"] == "localhost,127.0.0.1,::1"
    assert told["NODE_USE_ENV_PROXY"] == "1"
    assert "-Dhttps.proxyPort=61080" in told["JAVA_TOOL_OPTIONS"]


def test_what_the_host_has_is_replaced_and_what_the_task_sets_stays() -> None:
    passed = {"HTTPS_PROXY": "http://corp:3128", "http_proxy": "http://mine"}
    told = proxy_environment(61080, passed, {"http_proxy": "http://mine"})
    assert told["HTTPS_PROXY"] == URL
    assert told["http_proxy"] == "http://mine"


def test_java_options_of_the_task_come_last_so_that_they_count() -> None:
    told = proxy_environment(
        61080, {"JAVA_TOOL_OPTIONS": "-Xmx1g"}, {"JAVA_TOOL_OPTIONS": "-Xmx1g"}
    )
    assert told["JAVA_TOOL_OPTIONS"].startswith("-Dhttp.proxyHost=127.0.0.1 ")
    assert told["JAVA_TOOL_OPTIONS"].endswith(" -Xmx1g")


def test_its_port_is_none_of_the_tasks_own() -> None:
    assert proxy_port(frozenset()) == FIRST_PORT
    assert proxy_port(frozenset({FIRST_PORT, FIRST_PORT + 1, 80})) == FIRST_PORT + 2
