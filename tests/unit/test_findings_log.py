"""What the log of a tracer says, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.sandbox import tracelog
from vxwatch.sandbox.tracelog import Attempt, TraceLog, traced_calls

GONE = " = -1 ENOENT (No such file or directory)\n"
LOCKED = " = -1 EROFS (Read-only file system)\n"


def read(text: str | bytes, **options: object) -> list[Attempt]:
    log = TraceLog("/w/app", **options)  # type: ignore[arg-type]
    log.feed(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return list(log.attempts)


def names(text: str) -> list[str]:
    return [attempt.name for attempt in read(text)]


@pytest.mark.parametrize(
    ("line", "wish", "name"),
    [
        ('openat(AT_FDCWD</w/app>, "a", O_RDONLY|O_CLOEXEC)', "read", "/w/app/a"),
        ('openat(AT_FDCWD</w/app>, "a", O_WRONLY|O_CREAT|O_TRUNC, 0666)', "write", "/w/app/a"),
        ('openat(AT_FDCWD, "a", O_RDWR)', "write", "/w/app/a"),
        ('openat(5</w/lib>, "../a", O_RDONLY)', "read", "/w/lib/../a"),
        ('open("/x/y", O_RDONLY)', "read", "/x/y"),
        ('openat2(5</w>, "b", {flags=O_RDWR|O_CREAT, mode=0600, resolve=0}, 24)', "write", "/w/b"),
        ('creat("b", 0666)', "write", "/w/app/b"),
        ('execve("./tool", 0x55, 0x66 /* 3 vars */)', "read", "/w/app/./tool"),
        ('newfstatat(AT_FDCWD</w/app>, "b", 0x7f, 0)', "read", "/w/app/b"),
        ('statx(AT_FDCWD</w/app>, "/b", AT_STATX_SYNC_AS_STAT, STATX_ALL, 0x7f)', "read", "/b"),
        ('access("b", R_OK)', "read", "/w/app/b"),
        ('readlink("b", 0x7ffd, 1023)', "read", "/w/app/b"),
        ('mkdir("b", 0777)', "write", "/w/app/b"),
        ('unlinkat(4</w/a\\76b\\74\\"\\n\\303\\251,(x)>, "z", 0)', "write", '/w/a>b<"\né,(x)/z'),
        ('symlink("target", "b")', "write", "/w/app/b"),
        ('symlinkat("target", AT_FDCWD</w/app>, "b")', "write", "/w/app/b"),
        ('linkat(AT_FDCWD</w/app>, "a", 7</w/c>, "b", 0)', "write", "/w/c/b"),
        ('utimensat(AT_FDCWD</w/app>, "b", NULL, 0)', "write", "/w/app/b"),
        ('chmod("b", 0700)', "write", "/w/app/b"),
    ],
)
def test_a_refused_call_names_what_it_was_after(line: str, wish: str, name: str) -> None:
    (attempt,) = read(f"2     {line}{LOCKED}")
    assert (attempt.wish, attempt.name, attempt.error) == (wish, name, "EROFS")
    assert attempt.call == line.partition("(")[0]


def test_a_rename_is_after_both_names() -> None:
    lines = f'2 rename("a", "/q/b"){LOCKED}2 renameat2(3</w>, "c", 4</w/d>, "e", 0){LOCKED}'
    assert names(lines) == ["/w/app/a", "/q/b", "/w/c", "/w/d/e"]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ('{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("1.2.3.4")}', "1.2.3.4:80"),
        (
            (
                "{sa_family=AF_INET6, sin6_port=htons(443), sin6_flowinfo=htonl(0), "
                'inet_pton(AF_INET6, "2606:2800::1", &sin6_addr), sin6_scope_id=0}'
            ),
            "[2606:2800::1]:443",
        ),
    ],
)
def test_a_refused_connection_names_its_address(address: str, name: str) -> None:
    line = f"7 connect(3<socket:[35]>, {address}, 16) = -1 ENETUNREACH (Network is unreachable)\n"
    assert read(line) == [Attempt("connect", name, "connect", "ENETUNREACH")]


def test_other_addresses_and_what_succeeds_are_passed_over() -> None:
    path = '{sa_family=AF_UNIX, sun_path="/run/x"}'
    lines = (
        f"2 connect(3<socket:[1]>, {path}, 110){GONE}"
        '2 openat(AT_FDCWD</w/app>, "a", O_RDONLY) = 3</w/app/a>\n'
        '2 openat(5<pipe:[77]>, "a", O_RDONLY) = -1 ENOTDIR (Not a directory)\n'
        '2 openat(5</w/x>(deleted), "a", O_RDONLY) = 3</w/x/a>\n'
        '2 openat(AT_FDCWD</w/x (deleted)>, "a", O_RDONLY)'
        f'{GONE}2 openat(AT_FDCWD</w/app>, "", O_RDONLY){GONE}'
    )
    assert read(lines) == []


def test_watched_paths_and_everything_are_seen_although_they_succeed() -> None:
    lines = (
        '2 openat(AT_FDCWD</w/app>, "l", O_RDONLY) = 3</w/app/\\303\\251>\n'
        '2 openat(AT_FDCWD</w/app>, "b", O_RDONLY) = 3</w/app/b>\n'
        '2 newfstatat(AT_FDCWD</w/app>, "c", {st_mode=S_IFREG|0644, ...}, 0) = 0\n'
        '2 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0\n'
    )
    assert [a.name for a in read(lines, watched=frozenset({"/w/app/é"}))] == ["/w/app/l"]
    everything = read(lines, everything=True)
    assert [a.name for a in everything] == ["/w/app/l", "/w/app/b", "/w/app/c", "127.0.0.1:80"]
    assert {a.error for a in everything} == {""}


def test_a_watched_path_has_lost_its_name_in_the_box() -> None:
    for name in ("</w/app/b>(deleted)", "</w/app/b (deleted)>"):
        lines = f'2 openat(AT_FDCWD</w/app>, "b", O_RDONLY) = 3{name}\n'
        assert [a.name for a in read(lines, watched=frozenset({"/w/app/b"}))] == ["/w/app/b"]
        assert read(lines) == []


def test_the_halves_of_interleaved_calls_are_put_together() -> None:
    lines = (
        '2 openat(AT_FDCWD</w/app>, "a", O_RDONLY <unfinished ...>\n'
        '3 mkdir("b", 0777 <unfinished ...>\n'
        "2 <... openat resumed>) = -1 ENOENT (No such file or directory)\n"
        '4 statx(AT_FDCWD</w/app>, "c", 0, STATX_ALL,  <unfinished ...>\n'
        "3 <... mkdir resumed>) = -1 EROFS (Read-only file system)\n"
        "4 <... statx resumed>0x7ffd) = -1 ENOENT (No such file or directory)\n"
        "9 <... openat resumed>) = -1 ENOENT (No such file or directory)\n"
    )
    assert names(lines) == ["/w/app/a", "/w/app/b", "/w/app/c"]


def test_the_same_attempt_is_told_once() -> None:
    assert names(f'2 mkdir("b", 0777){LOCKED}' * 3) == ["/w/app/b"]


def test_a_relative_name_means_what_the_process_stood_in() -> None:
    plain = "child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD"
    lines = (
        '2 execve("/bin/sh", 0x1, 0x2) = 0\n'
        '2 chdir("sub")                   = 0\n'
        f"2 clone({plain}) = 3\n"
        f'3 mkdir("a", 0777){LOCKED}'
        '3 chdir("..") = 0\n'
        f'3 mkdir("b", 0777){LOCKED}'
        f'2 mkdir("c", 0777){LOCKED}'
        "2 vfork( <unfinished ...>\n"
        f'4 mkdir("d", 0777){LOCKED}'
        "2 <... vfork resumed>) = 4\n"
        '4 chdir("/elsewhere") = -1 ENOENT (No such file or directory)\n'
        f'4 mkdir("e", 0777){LOCKED}'
        "2 fchdir(3</srv/x>) = 0\n"
        f'2 mkdir("f", 0777){LOCKED}'
    )
    assert names(lines) == [
        "/w/app/sub/a",
        "/w/app/sub/../b",
        "/w/app/sub/c",
        "/w/app/sub/d",
        "/elsewhere",
        "/w/app/sub/e",
        "/srv/x/f",
    ]


def test_threads_share_the_directory_of_their_process() -> None:
    lines = (
        "2 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0}, 88) = 3\n"
        '2 chdir("/srv") = 0\n'
        f'3 mkdir("a", 0777){LOCKED}'
    )
    assert names(lines) == ["/srv/a"]


def test_a_shown_directory_tells_where_a_process_stands() -> None:
    lines = f'5 openat(AT_FDCWD</srv>, "a", O_RDONLY){GONE}5 mkdir("b", 0777){LOCKED}'
    assert names(lines) == ["/srv/a", "/srv/b"]


@pytest.mark.parametrize(
    ("escaped", "name"),
    [
        (r"a\nb\"c<>\\1\377\303\251", 'a\nb"c<>\\1\udcffé'),
        (r"\1\0012\t", "\x01\x012\t"),
        (r"\x41\x0a", "A\n"),
        (r"n) = -1 ENOENT, \" = 0", 'n) = -1 ENOENT, " = 0'),
    ],
)
def test_hostile_names_are_read_as_they_are(escaped: str, name: str) -> None:
    assert names(f'2 openat(AT_FDCWD</w/app>, "{escaped}", O_RDONLY){GONE}') == [f"/w/app/{name}"]


def test_a_name_that_was_cut_short_is_no_name() -> None:
    assert names(f'2 openat(AT_FDCWD</w/app>, "abc"..., O_RDONLY){GONE}') == []


def end_of(*lines: str) -> tuple[bool, bool]:
    log = TraceLog("/w/app")
    log.feed("".join(f"{line}\n" for line in lines).encode())
    return log.begun, log.ended


def test_the_end_of_the_first_process_is_seen() -> None:
    start = '2 execve("/bin/sh", 0x1, 0x2) = 0'
    assert end_of() == (False, False)
    assert end_of("strace: ptrace(PTRACE_SEIZE): Operation not permitted") == (False, False)
    assert end_of(start, "3 exit_group(0) = ?", "3 +++ exited with 0 +++") == (True, False)
    assert end_of(start, "2 exit_group(3)         = ?") == (True, True)
    assert end_of(start, "2 exit_group(3 <unfinished ...>") == (True, True)
    assert end_of(start, "2 +++ killed by SIGKILL +++") == (True, True)
    assert end_of(start, "2 --- SIGSEGV {si_signo=SIGSEGV} ---") == (True, True)
    threads = "2 clone3({flags=CLONE_FS|CLONE_THREAD}, 88) = 5"
    assert end_of(start, threads, "5 +++ exited with 0 +++") == (True, False)
    assert end_of(start, threads, "5 exit_group(1) = ?") == (True, True)


def was_cut(log: TraceLog) -> bool:
    """Asked anew each time, which a type checker cannot know of an attribute."""
    return log.cut


def test_a_log_that_is_too_long_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracelog, "MOST_BYTES", 200)
    log = TraceLog("/w")
    log.feed(f'2 mkdir("a", 0777){LOCKED}'.encode())
    assert not was_cut(log)
    log.feed(b"x" * 200)
    log.feed(f'\n2 mkdir("b", 0777){LOCKED}'.encode())
    assert was_cut(log)
    assert [attempt.name for attempt in log.attempts] == ["/w/a"]


def test_too_many_attempts_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracelog, "MOST_ATTEMPTS", 2)
    log = TraceLog("/w")
    log.feed("".join(f'2 mkdir("{i}", 0777){LOCKED}' for i in (1, 2, 2)).encode())
    assert not was_cut(log)
    log.feed(f'2 mkdir("3", 0777){LOCKED}'.encode())
    assert was_cut(log)
    assert len(log.attempts) == 2


def test_a_line_without_an_end_takes_no_memory() -> None:
    log = TraceLog("/w")
    for _ in range(100):
        log.feed(b"2 mkdir(" + b"x" * 60_000)
    assert len(log._rest) <= 70_000
    log.feed(f'\n2 mkdir("b", 0777){LOCKED}'.encode())
    assert [attempt.name for attempt in log.attempts] == ["/w/b"]


_PIECES = st.sampled_from(
    [
        *("2 ", "3     ", "[pid 4] ", "\n", "openat(", "mkdir(", "rename(", "clone(", "vfork("),
        *("chdir(", "fchdir(", "connect(", "exit_group(", "AT_FDCWD", "AT_FDCWD</w/app>", "3</x>"),
        *('"a"', '"', "\\", "\\777", "\\x", "<", ">", "{", "}", "(", ")", ", ", "...", "O_RDWR"),
        *(") = 0", ") = 3</w/app/a>", ") = ?", ") = -1 ENOENT (No)", " <unfinished ...>"),
        *("<... openat resumed>", "<... vfork resumed>) = 3", "+++ exited with 0 +++", "CLONE_FS"),
        *("sin_port=htons(99), sin_addr=inet_addr(", "--- SIGSEGV {} ---", "99999999999", "\0"),
    ]
)


@given(
    st.one_of(
        st.lists(_PIECES, max_size=60).map(lambda pieces: "".join(pieces).encode()),
        st.binary(max_size=300),
    ),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([frozenset[str](), frozenset({"/w/app/a"})]),
)
def test_no_log_is_too_broken_and_none_depends_on_where_it_is_cut(
    data: bytes, step: int, everything: bool, watched: frozenset[str]
) -> None:
    whole = TraceLog("/w/app", everything=everything, watched=watched)
    whole.feed(data + b"\n")
    parts = TraceLog("/w/app", everything=everything, watched=watched)
    for start in range(0, len(data), step):
        parts.feed(data[start : start + step])
    parts.feed(b"\n")
    assert list(parts.attempts) == list(whole.attempts)
    for attempt in whole.attempts:
        assert attempt.name.startswith("/") or attempt.wish == "connect"


@pytest.mark.parametrize("piece", [b"(", b'"', b"<", b"\\", b'"a', b"(<", b",", b"{", b"3<a>"])
def test_a_long_hostile_line_is_read_in_no_time(piece: bytes) -> None:
    log = TraceLog("/w")
    log.feed(b"2 openat(" + piece * (60_000 // len(piece)) + b" = -1 EROFS\n")
    assert not log.attempts


def test_looking_at_names_is_traced_only_if_wanted() -> None:
    assert "?openat," in traced_calls(looks=False)
    assert "stat" not in traced_calls(looks=False)
    assert "?statx," in traced_calls(looks=True)
