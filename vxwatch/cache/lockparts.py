"""The part of a lockfile that concerns a project, as a digest; kept until the lockfile moves.

To read a lockfile costs more than all keys together, so the digests of its parts are kept on disk
too. What is kept for another content, or damaged, is made anew; what is not understood counts
whole, and so does a link, and what does not hold any more what its digest says.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import xxhash

from vxwatch.cache.content import is_of
from vxwatch.config.load import content_of
from vxwatch.model import Project, Workspace
from vxwatch.workspace.home import replace

if TYPE_CHECKING:
    from vxwatch.workspace.lockfiles import Lock

PLACE = ".vx/cache/locks"
"""Where they are kept, below the root of the workspace."""


class LockParts:
    """The lockfiles of one workspace, as it was loaded.

    `asked`: more was read for a digest than the lockfile itself.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shape = _digest(
            repr([(p.name, p.dir, p.dependencies) for p in workspace.projects.values()])
        )
        self._parts: dict[str, tuple[str, Mapping[str, str] | None]] = {}
        self.asked = False

    def digest(self, path: str, whole: str, project: str) -> str:
        """The digest of the project's part of the lockfile at a path.

        `whole` is that of all of it, as `content` has it: the answer where the lockfile is not
        understood, or where it holds something else by now.
        """
        known = self._parts.get(path)
        if known is None or known[0] != whole:
            known = self._parts[path] = (whole, self._kept(path, whole))
        return whole if known[1] is None else known[1][project]

    def _kept(self, path: str, whole: str) -> Mapping[str, str] | None:
        place = f"{self._workspace.root}/{PLACE}/{path}"
        stamp = f"3 {whole} {self._shape}"
        parts = _load(place, stamp, self._workspace.projects)
        if parts is not None:
            return parts
        lock, manifests = self._read(path, whole)
        self.asked |= manifests
        if lock is None:
            return None
        parts = {
            project.name: lock.part([project.dir] if lock.linked else self._around(project))
            for project in self._workspace.projects.values()
        }
        if not manifests:  # or they would have to be part of the stamp
            _keep(place, stamp, parts)
        return parts

    def _read(self, path: str, whole: str) -> "tuple[Lock | None, bool]":
        """The lockfile, None if it counts whole, and whether manifests were asked."""
        from vxwatch.workspace.lockfiles import read_lock  # noqa: PLC0415 - what is kept needs none

        asked = False

        def wanted(place: str) -> dict[str, Any]:
            nonlocal asked
            asked = True
            manifest = os.path.join(self._workspace.root, place, "package.json")
            if not os.path.lexists(manifest):
                return {}
            found = json.loads(content_of(manifest))
            return found if isinstance(found, dict) else {}

        # The root may be no project, or have given way to one of its name.
        places = {"", *(project.dir for project in self._workspace.projects.values())}
        try:
            content = content_of(f"{self._workspace.root}/{path}")
            if not is_of(whole, content):
                return None, asked
            return read_lock(path, content.decode(), wanted, places), asked
        except (OSError, ValueError):
            return None, asked

    def _around(self, project: Project) -> Iterator[str]:
        """The directories of a project and of all that it depends on in the workspace."""
        seen = {project.name}
        ahead = [project]
        while ahead:
            one = ahead.pop()
            yield one.dir
            for name in one.dependencies:
                if name not in seen:
                    seen.add(name)
                    ahead.append(self._workspace.projects[name])


def _load(place: str, stamp: str, projects: Mapping[str, Project]) -> dict[str, str] | None:
    try:
        with open(place, encoding="utf-8") as file:
            kept = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("of") != stamp:
        return None
    parts = kept.get("parts")
    if not isinstance(parts, dict) or kept.get("sum") != _digest(json.dumps(parts)):
        return None
    return parts if parts.keys() == projects.keys() else None


def _keep(place: str, stamp: str, parts: Mapping[str, str]) -> None:
    kept = {"of": stamp, "sum": _digest(json.dumps(parts)), "parts": parts}
    try:
        replace(place, json.dumps(kept).encode())
    except OSError:
        return  # it spares time and nothing else


def _digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogateescape"))
