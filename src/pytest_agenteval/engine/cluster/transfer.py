"""What travels between pytest and the actors of a cluster: the project, plans, workspaces and recordings."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from pytest_agenteval.cassettes import cassette_files
from pytest_agenteval.cassettes.interaction import Body, Interaction
from pytest_agenteval.cassettes.request_matching import RequestKey, key_of
from pytest_agenteval.engine.executor import ExecutorBroken, ExecutorContext
from pytest_agenteval.processes.files import remove_tree
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.records.plan import McpServer, PlannedTask
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text.errors import Problem, ProblemsFound
from pytest_agenteval.text.formatting import pluralize


def make_folder(name: str, parent: str | None = None) -> Path:
    """Make a folder for this process, after removing those of the same name whose processes are gone."""
    for left in Path(parent or tempfile.gettempdir()).glob(f"{name}-*"):
        pid = left.name.removeprefix(f"{name}-").partition("-")[0]
        if pid.isdecimal() and not is_running(int(pid)):
            remove_tree(left)
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir=parent)).resolve()


# Folders that are never sent, beside caches (``.*_cache``) and virtual environments.
LEFT_HOME = frozenset({".git", ".hg", ".agenteval", "__pycache__", "node_modules", ".tox", ".nox", ".eggs"})

# For all files together: more is hardly meant to be sent, and every actor stores it once.
MOST_BYTES = 512 * 1024 * 1024

MOST_NAMED = 3


def pack_project(root: Path) -> bytes:
    """Return the project as a compressed archive; raises ExecutorBroken if it is too large to send.

    In a git repository, files that git ignores are left out.
    """
    # A link that leads out of the project is sent as the files that it leads to.
    files = {name: path for path in _files(root) for name, path in _followed(path, root)}
    sizes: Counter[str] = Counter()
    for name, path in files.items():
        with suppress(OSError):
            sizes[name.parts[0]] += path.lstat().st_size
    if (whole := sum(sizes.values())) > MOST_BYTES:
        largest = ", ".join(f"{name} ({_mb(size)})" for name, size in sizes.most_common(MOST_NAMED))
        raise ExecutorBroken(
            f"{root}: the project is copied to the cluster, so it may have at most {_mb(MOST_BYTES)}; "
            f"found {_mb(whole)}: {largest}. Files in .gitignore are not sent"
        )
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as packed:
        for name, path in files.items():
            # A file of another run, for example, may be gone since it was listed.
            with suppress(FileNotFoundError):
                packed.add(
                    path, name.as_posix(), recursive=False, filter=partial(_leading_within, path, root)
                )
    return archive.getvalue()


def unpack_project(archive: bytes, folder: Path) -> None:
    """Unpack the project into a folder; its files have their original times."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        packed.extractall(folder, filter="tar")


def _files(root: Path) -> Iterator[Path]:
    known = _known_to_git(root)
    if known is not None:
        yield from known
        return
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        caches = {name for name in folders if name.startswith(".") and name.endswith("_cache")}
        inner = sorted({*folders} - LEFT_HOME - caches)
        folders[:] = [name for name in inner if not (here / name / "pyvenv.cfg").is_file()]
        yield from (here / name for name in sorted(names))
        # ``os.walk`` does not follow a link to a folder. An empty folder may be a workspace.
        yield from (here / name for name in folders if (here / name).is_symlink())
        if not folders and not names and here != root:
            yield here


def _known_to_git(root: Path) -> list[Path] | None:
    """List the files that git does not ignore; None if there is no repository, or no git."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    names = dict.fromkeys(os.fsdecode(listed).split("\0"))
    paths = (root / name for name in names if name)
    there = [path for path in paths if os.path.lexists(path)]
    # Git lists a repository within it as a folder, which has files of its own.
    inner = [path for path in there if path.is_dir() and not path.is_symlink()]
    files = [
        path
        for path in there
        if path not in inner and not LEFT_HOME.intersection(path.relative_to(root).parts[:-1])
    ]
    return files + [file for folder in inner for file in _files(folder)]


def _followed(path: Path, root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield what is packed for a path, with its name: for a link out of the project, all that it leads to."""
    name = path.relative_to(root)
    if not path.is_symlink() or path.resolve().is_relative_to(root.resolve()):
        yield name, path
        return
    yield name, (real := path.resolve())
    if real.is_dir():
        yield from ((name / inner.relative_to(real), inner) for inner in _files(real))


def _leading_within(path: Path, root: Path, member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Let an absolute link within the project lead to the copy."""
    if member.issym() and os.path.isabs(member.linkname) and path.resolve().is_relative_to(root.resolve()):
        member.linkname = os.path.relpath(path.resolve(), path.parent.resolve())
    return member


def _mb(size: int) -> str:
    return f"{size / 1024 / 1024:.0f} MiB"


def pack_workspace(folder: Path) -> bytes:
    """Return a workspace as an archive, and remove it; nothing if it cannot be packed."""
    archive = io.BytesIO()
    try:
        with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as packed:
            packed.add(folder, ".")
    # It was removed, is thousands of folders deep, or changed meanwhile.
    except (OSError, RecursionError, ValueError):
        return b""
    finally:
        remove_tree(folder)
    return archive.getvalue()


def unpack_workspace(archive: bytes, parent: Path) -> Path:
    """Unpack a workspace into a folder of its own, without links that lead out of it."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="agenteval-", dir=parent))
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        packed.extractall(folder, filter=_safe_member)
    return folder


def _safe_member(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    # An agent may have made anything.
    except tarfile.FilterError:
        return None


class RecordingMerger:
    """Adds to each cassette what actors have recorded into theirs, as soon as a trial has ended.

    Of equal requests as many stay as one actor has made, as between processes of one machine: the answers
    that came first.
    """

    def __init__(self, root: Path, started: float | None) -> None:
        self._root, self._started = root, started or 0.0
        self._dropped: defaultdict[str, set[RequestKey]] = defaultdict(set)
        self.problems: list[Problem] = []

    def take(self, name: str, content: bytes, *, replacing: bool) -> None:
        """Add the content of an actor's file; ``replacing`` drops recordings from before the run."""
        path = self._root / name
        try:
            with tempfile.TemporaryDirectory(prefix="agenteval-") as folder:
                beside = Path(folder, Path(name).name)
                beside.write_bytes(content)
                recording = cassette_files.read_cassette(beside, name)
            cassette_files.save_cassette(
                path,
                recording.interactions,
                name=name,
                since=self._started if replacing else None,
                started=self._started,
                unfinished=recording.unfinished,
            )
            there = set(map(_identity, cassette_files.read_cassette(path, name).interactions))
        except ProblemsFound as broken:
            self.problems += broken.problems
            return
        lost = (each for each in recording.interactions if _identity(each) not in there)
        self._dropped[name] |= {key_of(each.request) for each in lost}

    def other_answers(self) -> Iterator[str]:
        """Yield where the answers of actors to one request differed."""
        for name, dropped in sorted(self._dropped.items()):
            if dropped:
                calls = pluralize(len(dropped), "recorded call")
                yield f"{name}: actors recorded different results of {calls}; the first ones are stored"


def _identity(interaction: Interaction) -> tuple[RequestKey, int, Body]:
    return key_of(interaction.request), interaction.response.status, interaction.response.body


PATH_OPTIONS = ("--rootdir=", "-c")


class PathMapping(NamedTuple):
    """Maps paths below ``home``, the project where pytest runs, to ``here``, its copy."""

    home: str
    here: str

    def path(self, text: str) -> str:
        """Return the path in the copy; a path outside of the project must exist on this machine, too."""
        inside = text == self.home or text.startswith(f"{self.home}/")
        if inside:
            return self.here + text[len(self.home) :]
        if text.startswith("/") and not Path(text).exists():
            raise ExecutorBroken(
                f"{text}: expected a path below the rootdir {self.home}, which is copied to the cluster, "
                "or a path that exists on each of its machines"
            )
        return text

    def context(self, context: ExecutorContext, **more: Any) -> ExecutorContext:
        """Return what a run tells its executor, with the paths of the copy."""
        return replace(
            context,
            root=self.here,
            conftests=tuple(map(self.path, context.conftests)),
            pytest_options=tuple(map(self._option, context.pytest_options)),
            **more,
        )

    def _option(self, option: str) -> str:
        for name in PATH_OPTIONS:
            if option.startswith(name):
                return name + self.path(option[len(name) :])
        return option

    def task(self, task: PlannedTask) -> PlannedTask:
        """Return a task with the paths of the copy; what is shown to people stays as it is."""
        return replace(
            task,
            layers=tuple(map(self.path, task.layers)),
            cassette=self.cassette(task.cassette),
            shared=tuple(map(self.path, task.shared)),
            tools=tuple(map(self._tools, task.tools)),
            form=self._form(task.form) if task.form else NOTHING,
        )

    def cassette(self, name: str) -> str:
        """Return the path of a cassette in the copy, whether it exists or will be made."""
        return self.here + name[len(self.home) :] if name.startswith(f"{self.home}/") else name

    def _tools(self, entry: str | McpServer) -> str | McpServer:
        if isinstance(entry, str):
            return self.path(entry)
        return replace(entry, folder=self.path(entry.folder), schemas=self.cassette(entry.schemas))

    def _form(self, form: Mapping[str, Any]) -> Mapping[str, Any]:
        places: dict[str, Any] = {}
        if form.get("folder"):
            places["folder"] = self.path(form["folder"])
        if form.get("paths"):
            places["paths"] = list(map(self.path, form["paths"]))
        return {**form, **places}

    def at_home(self, trial: Trial) -> Trial:
        """Return a trial that names the project's own files, not those of the copy."""
        texts = ("message", "traceback", "output", "log")
        named = {name: text for name in texts if self.here in (text := getattr(trial, name))}
        changed = {name: text.replace(self.here, self.home) for name, text in named.items()}
        return replace(trial, **changed) if changed else trial
