"""What a lockfile says that concerns one project: all that it depends on, however far. Pure.

A change of the lockfile concerns the projects whose part of it moved, and no others. What the root
of the workspace depends on concerns every project, because all find it installed. Where a
dependency cannot be found under the range that asks for it (an override, a patch), every
version of that name counts. A lockfile that is not understood is a `ValueError`; then all of it
concerns everybody.
"""

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from xxhash import xxh3_128_hexdigest

from vxwatch.graph.knots import knots
from vxwatch.workspace.dependencies import joined

Raw = Mapping[str, Any]
Wanted = Iterable[tuple[str, str]]
"""Names and ranges, as a manifest asks for them."""

_FIELDS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_INSTALLED = "node_modules/"


class Lock:
    """A lockfile as a graph.

    `says` tells what is pinned under a key, `leads` which keys that one depends on. `starts`
    holds the keys that the project of a directory ("" for the root) depends on itself.
    `common` concerns all. `linked` says that it leads from project to project, too.
    """

    def __init__(self, common: str, *, linked: bool = True) -> None:
        self.common = common
        self.linked = linked
        self.says: dict[str, str] = {}
        self.leads: dict[str, list[str]] = {}
        self.starts: dict[str, list[str]] = {}

    def part(self, directories: Iterable[str]) -> str:
        """A hash of all that is pinned for the projects of these directories and for the root."""
        digests = self._digests
        places = ("", *directories)
        found = {digests[key] for place in places for key in self.starts.get(place, ())}
        return _digest([self.common, *sorted(found)])

    @cached_property
    def _digests(self) -> Mapping[str, str]:
        """Of each key a hash of all that it leads to, however far, and of what is said of that.

        Made once for all parts: what many projects depend on is looked at once.
        """
        digests: dict[str, str] = {}
        starts = (key for keys in self.starts.values() for key in keys)
        for knot in knots(starts, lambda key: self.leads.get(key, ())):
            says = sorted(f"{key} {self.says.get(key, '')}" for key in knot)
            ahead = {to for key in knot for to in self.leads.get(key, ())}.difference(knot)
            digest = _digest([*says, *sorted({digests[key] for key in ahead})])
            digests.update(dict.fromkeys(knot, digest))
        return digests


def read_lock(name: str, text: str, wanted: Callable[[str], Raw], places: Iterable[str]) -> Lock:
    """The lockfile of this name. `ValueError` if it is of another kind, or broken.

    `places` are the directories of the projects, `wanted` gives the `package.json` in one, for
    those lockfiles that do not repeat what it says.
    """
    try:
        match name:
            case "package-lock.json" | "npm-shrinkwrap.json":
                return _npm(json.loads(text), places)
            case "pnpm-lock.yaml":
                return _pnpm(_yaml(text), places)
            case "yarn.lock" if "\n__metadata:" in text:
                return _berry(_yaml(text))
            case "yarn.lock":
                return _yarn(text, {place: wanted(place) for place in places})
            case "uv.lock":
                return _uv(tomllib.loads(text))
            case _:
                raise ValueError(f"{name} is read by its package manager alone")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{name} is not as expected: {error!r}") from error


def _npm(raw: Raw, places: Iterable[str]) -> Lock:
    packages: Raw = raw["packages"]
    lock = Lock(common=str(raw["lockfileVersion"]))
    for key, package in packages.items():
        lock.says[key] = _pinned(package, ("version", "resolved", "integrity"))
        lock.leads[key] = list(_npm_leads(packages, key, package))
    lock.starts = {place: lock.leads[place] for place in places if place in packages}
    return lock


def _npm_leads(packages: Raw, key: str, package: Raw) -> Iterator[str]:
    if package.get("link"):
        yield package["resolved"]
        return
    for name in (name for part in _FIELDS for name in package.get(part, ())):
        at = key
        while (found := f"{at}/{_INSTALLED}{name}".lstrip("/")) not in packages and at:
            at = at.rpartition("/")[0]
        if found in packages:
            yield found


def _pnpm(raw: Raw, places: Iterable[str]) -> Lock:
    parts = ("lockfileVersion", "settings", "overrides", "catalogs", "pnpmfileChecksum")
    more = ("packageExtensionsChecksum", "patchedDependencies")
    lock = Lock(common=_pinned(raw, (*parts, *more)))
    packages: Raw = raw.get("packages") or {}
    snapshots: Raw = raw.get("snapshots") or packages
    for key, snapshot in snapshots.items():
        # From version 9 on, peers stand behind the key of a snapshot, not of a package.
        package = packages.get(key) or packages.get(key.partition("(")[0]) or {}
        lock.says[key] = _pinned(package, ("resolution", "version", "patched"))
        lock.leads[key] = list(_pnpm_leads(snapshots, snapshot or {}, ""))
    for place in places:
        importer = raw["importers"].get(place or ".", {}) if "importers" in raw else raw
        lock.starts[place] = list(_pnpm_leads(snapshots, importer, place))
    for place in places:
        lock.leads[f"link:{place}"] = lock.starts[place]
    return lock


def _pnpm_leads(known: Raw, package: Raw, place: str) -> Iterator[str]:
    for name, pin in ((n, pin) for part in _FIELDS for n, pin in (package.get(part) or {}).items()):
        version = pin["version"] if isinstance(pin, dict) else pin
        if version.startswith("link:"):
            linked = joined(place, version.removeprefix("link:"))
            if linked is not None:
                yield f"link:{linked}"
            continue
        keys = (version, f"{name}@{version}", f"/{name}@{version}", f"/{name}/{version}")
        found = next((key for key in keys if key in known), None)
        if found is None:
            raise ValueError(f"pnpm-lock.yaml pins no {name} {version}")
        yield found


def _berry(raw: Raw) -> Lock:
    lock = Lock(common=_pinned(raw["__metadata"], ("version", "cacheKey")))
    entries = {key: value for key, value in raw.items() if key != "__metadata"}
    keys = {one: key for key in entries for one in key.split(", ")}
    named = _by_name(keys)
    for key, entry in entries.items():
        lock.says[key] = _pinned(entry, ("version", "resolution", "checksum", "conditions"))
        asked = ((n, v) for part in _FIELDS for n, v in (entry.get(part) or {}).items())
        lock.leads[key] = list(_found(keys, named, asked))
        _, _, place = entry["resolution"].partition("@workspace:")
        if place:
            lock.starts["" if place == "." else place] = lock.leads[key]
    return lock


def _yarn(text: str, manifests: Mapping[str, Raw]) -> Lock:
    lock = Lock(common="1", linked=False)
    entries = dict(_yarn_entries(text))
    keys = {one: key for key in entries for one in key.split(", ")}
    named = _by_name(keys)
    for key, (says, asked) in entries.items():
        lock.says[key] = says
        lock.leads[key] = list(_found(keys, named, asked))
    for place, manifest in manifests.items():
        asked = [(n, v) for part in _FIELDS for n, v in manifest.get(part, {}).items()]
        lock.starts[place] = list(_found(keys, named, asked))
    return lock


def _yarn_entries(text: str) -> Iterator[tuple[str, tuple[str, list[tuple[str, str]]]]]:
    """The entries of yarn's own format: a line of keys, then indented lines about them."""
    key, says, asked = "", "", list[tuple[str, str]]()
    for line in (line for line in text.splitlines() if line and not line.startswith("#")):
        if not line.startswith(" "):
            if key:
                yield key, (says, asked)
            if not line.endswith(":"):
                raise ValueError(f"yarn.lock has an unknown line: {line}")
            key, says, asked = line[:-1].replace('"', ""), "", []
        elif line.startswith("    "):
            name, _, version = line.strip().partition(" ")
            asked.append((name.strip('"'), version.strip('"')))
        else:
            says += line.strip() + " "
    if key:
        yield key, (says, asked)


def _by_name(keys: Mapping[str, str]) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for one, key in keys.items():
        # The first character may be the @ of a scope.
        named.setdefault(one[: one.index("@", 1)], []).append(key)
    return named


def _found(keys: Mapping[str, str], named: Mapping[str, list[str]], asked: Wanted) -> Iterator[str]:
    """What stands for each name and range; for an unknown range, whatever has the name."""
    for name, version in asked:
        exact = keys.get(f"{name}@{version}") or keys.get(f"{name}@npm:{version}")
        yield from [exact] if exact else named.get(name, ())


def _uv(raw: Raw) -> Lock:
    settings = ("version", "requires-python", "resolution-markers", "options", "manifest")
    lock = Lock(common=_pinned(raw, settings))
    packages: list[Raw] = raw["package"]
    named: dict[str, list[Raw]] = {}
    for package in packages:
        named.setdefault(package["name"], []).append(package)
    for package in packages:
        key = _uv_key(package)
        lock.says[key] = _pinned(package, ("version", "source", "sdist", "wheels"))
        lock.leads[key] = list(_uv_leads(named, package))
        source = package["source"]
        place = source.get("editable", source.get("virtual"))
        if place is not None:
            lock.starts["" if place == "." else place] = lock.leads[key]
    return lock


def _uv_key(package: Raw) -> str:
    return f"{package['name']} {package.get('version', '')} {json.dumps(package['source'])}"


def _uv_leads(named: Mapping[str, list[Raw]], package: Raw) -> Iterator[str]:
    groups = [package.get("dependencies", [])]
    for part in ("optional-dependencies", "dev-dependencies"):
        groups += package.get(part, {}).values()
    for need in (need for group in groups for need in group):
        version = need.get("version")
        found = named[need["name"]]
        yield from (_uv_key(one) for one in found if version in (None, one.get("version")))


def _pinned(raw: Raw, parts: Iterable[str]) -> str:
    return json.dumps(
        {part: raw[part] for part in parts if part in raw}, sort_keys=True, default=str
    )


def _digest(parts: list[str]) -> str:
    return xxh3_128_hexdigest(json.dumps(parts).encode())


def _yaml(text: str) -> Raw:
    from vxwatch.workspace.pnpm import read_yaml  # noqa: PLC0415 - only its lockfiles are YAML

    content = read_yaml(text)
    if not isinstance(content, dict):
        raise ValueError("it holds no table")  # noqa: TRY004 - it is what a lockfile says
    return content
