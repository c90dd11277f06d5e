"""What is known of a plan before anything runs: its files, its keys, its cache. Synchronous.

`learn` lists the files; `index` and `keys` are there from then on. Must be closed.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vxwatch.cache.files import FileIndex
from vxwatch.cache.place import cache_place
from vxwatch.cache.remembered import PLACE as READ
from vxwatch.cache.remembered import Remembered
from vxwatch.cache.reuse import Cache
from vxwatch.cache.secretkey import secret_key
from vxwatch.cache.store import Store
from vxwatch.cache.tracked import Sources, TrackedFiles
from vxwatch.cache.trouble import Notice
from vxwatch.graph.affected import Affected
from vxwatch.graph.places import upward
from vxwatch.session.keys import KeyRing
from vxwatch.session.recall import recalled, terms, write_down
from vxwatch.workspace.git import Git, Ignores, Listing, begin_listing

if TYPE_CHECKING:
    from vxwatch.model import TaskId
    from vxwatch.session.planning import Options, Plan


_LARGE = 100_000
"""Bytes of the record of files that were read: it has about 100 of each."""


class Knowledge:
    """The files of one workspace and the keys of one plan.

    `fresh` are tasks that were found to have nothing to do.
    """

    def __init__(
        self,
        plan: "Plan",
        options: "Options",
        environ: Mapping[str, str],
        listing: Listing | None = None,
    ) -> None:
        """`listing` was begun before, and stays the caller's to close."""
        self._tracked = TrackedFiles(plan.workspace.root)
        self.affected = Affected(plan.workspace, plan.graph, Sources(self._tracked))
        self.ignores = Ignores(plan.workspace.root)
        self.index: FileIndex
        self.keys: KeyRing
        self._plan = plan
        self._options = options
        self._environ = environ
        self._listing = listing
        self._learned = False
        self.fresh: frozenset[TaskId] = frozenset()
        self._cache: Cache | None = None
        self._untold: list[tuple[str, str]] = []
        self._listener: Notice | None = None

    def learn(self) -> None:
        """List the files of the plan's tasks, once; the first keys can be made then."""
        if self._learned:
            return
        root = self._plan.workspace.root

        def lister(places: Sequence[str]) -> list[str]:
            listing, self._listing = self._listing, None
            # A repository may come, or go, while a watch runs.
            return Git(root, listing=listing).tracked_and_untracked(places)

        self.index = FileIndex(
            root, self.affected, self.ignores, lister, remembered=Remembered.load(root)
        )
        self.keys = KeyRing(
            self._plan,
            self.index,
            self._environ,
            self._options.arguments,
            whole_projects=self._options.verb == "watch",
            secret_key=lambda: secret_key(self._environ),
        )
        self._terms = terms(self._plan, self._options, self.index, self._environ)
        self.keys.recall(recalled(self._plan, self.index, self.affected, self._terms))
        self._learned = True

    def write_down_keys(self) -> None:
        """Have later runs recall the keys that were made until now. While no task runs."""
        # It spares time and nothing else.
        with contextlib.suppress(OSError):
            write_down(self.keys, self.index, self._terms)

    def replace(self, plan: "Plan") -> None:
        """Take up another plan of the same workspace; every key is made anew."""
        self._plan = plan
        self.affected = Affected(plan.workspace, plan.graph, Sources(self._tracked))
        self.ignores.reset()
        self.index.load(self.affected)
        self.keys.replace(plan)

    def open_cache(self) -> Cache | None:
        """The cache of the workspace, opened once; None if it is not to be used."""
        if self._cache is None and self._options.cache != "off":
            workspace = self._plan.workspace
            options = self._options
            place = options.cache_dir or cache_place(workspace.root, workspace.cache_dir)
            to_read = options.cache == "read"
            self._cache = Cache(
                workspace.root,
                workspace.projects,
                lambda: Store(place, to_read=to_read),
                self.tell,
            )
            self._cache.outputs.track_by(self._tracked)
            self._cache.outputs.share(workspace)
        return self._cache

    @property
    def in_trouble(self) -> bool:
        """Whether the cache has something to tell that nobody heard yet."""
        return bool(self._untold)

    def hear(self, listener: Notice) -> None:
        """Have all that the cache tells told to the listener, and what it told before."""
        self._listener = listener
        for text, hint in self._untold:
            listener(text, hint)
        self._untold.clear()

    def tell(self, text: str, hint: str) -> None:
        """Tell what the cache has to say to the listener, or to the one that comes, once."""
        if self._listener is None:
            self._untold += () if (text, hint) in self._untold else ((text, hint),)
        else:
            self._listener(text, hint)

    def close(self) -> None:
        """Write down what was read, for later runs, and end what is kept open."""
        self.ignores.close()
        if self._cache is not None:
            self._cache.close()
        if self._learned:
            # It spares time and nothing else; whatever keeps it from being written, the cache tells.
            with contextlib.suppress(OSError):
                self.index.remember()


@contextlib.contextmanager
def listing_ahead(directory: str) -> Iterator[Listing | None]:
    """Have git list the workspace around a directory from now on, where it is known to be large.

    It takes as long as to read the configs, and needs none of them.
    """
    root = next((place for place in upward(directory) if _is_large(place)), None)
    if root is None:
        yield None
        return
    listing = begin_listing(root)
    with contextlib.closing(listing.answer):
        yield listing


def _is_large(place: str) -> bool:
    """Whether a workspace lies here of which many files were read."""
    try:
        return os.stat(f"{place}/{READ}").st_size > _LARGE
    except OSError:
        return False
