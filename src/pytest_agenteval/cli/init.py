"""``agenteval init`` and ``import``: first suites, written, copied or imported from elsewhere."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple, TextIO

import yaml

from pytest_agenteval.agents.agent import agent_trait
from pytest_agenteval.cli.console import STDOUT, add_json_option, write_document, write_result
from pytest_agenteval.cli.function_suite import (
    FIRST_STEPS,
    NamedFunction,
    import_function,
    named_function,
    prompt_notes,
    takes_prompt,
)
from pytest_agenteval.cli.project_files import (
    FILL_IN,
    NewFile,
    Project,
    fill,
    find_project,
    module_name,
    packaging_lines,
    refuse_existing,
    shared_files,
    workflow,
    write_files,
)
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registry import Example, Registry
from pytest_agenteval.session.planning.suites import recordings_of
from pytest_agenteval.tasks.documents import path_in_root, short_path
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import printable

# If a folder has more files than this, they are counted instead of named.
MOST_FILES_NAMED = 12

# The folder of a kind's templates that is not copied into the suite.
RECORDINGS = "cassettes"

_SUITE_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class NextStep(FrozenValue, frozen=True):
    """What to do next, in words, and its line: a command, or how something looks."""

    title: str
    line: str


class InitDocument(Document, frozen=True, kw_only=True):
    """What was written: a suite of somebody's own, or an example, and what to type next.

    ``written``, ``added_to`` and ``left`` are paths from ``root``, the project's folder: new files, files
    that got lines added at their end, and those that were left as they are. ``run`` is the command of the
    first trials, ``steps`` are it and what follows; ``change`` says what to change first. With ``dry_run``
    nothing was written.
    """

    root: str
    suite: str
    written: tuple[str, ...]
    added_to: tuple[str, ...]
    left: tuple[str, ...]
    run: str
    steps: tuple[NextStep, ...]
    change: tuple[str, ...]
    dry_run: bool


def init_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments; the examples are those that installed benchmarks register."""
    names = ", ".join(installed_registry().examples) or "none is installed"
    parser.add_argument(
        "what",
        nargs="?",
        metavar="MODULE:FUNCTION",
        help="your agent, as in support.bot:answer: a function, a class or an object; or the project's "
        "folder, for an example (default: the folder that you are in)",
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--agent", choices=STARTERS, help="the example's kind of agent (default: python)")
    kinds.add_argument("--example", metavar="NAME", help=f"copy a shipped suite instead: {names}")
    parser.add_argument(
        "--with-prompts", action="store_true", help="also copy the prompts of the example's agent to prompts/"
    )
    parser.add_argument("--suite", metavar="NAME", help="the suite's name (default: one for each --agent)")
    parser.add_argument("--force", action="store_true", help="write over files that are there")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be written, and write nothing"
    )
    add_json_option(parser)


def init(args: argparse.Namespace) -> int:
    plan, project = _plan(args)

    def names(paths: Iterable[Path]) -> tuple[str, ...]:
        return tuple(path_in_root(path, project.root) for path in paths)

    document = InitDocument(
        root=str(project.root),
        suite=plan.suite,
        written=names(file.path for file in plan.files if not file.adds),
        added_to=names(file.path for file in plan.files if file.adds),
        left=names(plan.left),
        run=plan.steps[0].line,
        steps=plan.steps,
        change=plan.change,
        dry_run=args.dry_run,
    )
    if args.json:
        write_document(args.json, document)
    if not args.dry_run:
        write_files(plan.files)
    if args.json != STDOUT:
        print("\n".join(_init_lines(document)))
    return 0


def _plan(args: argparse.Namespace) -> tuple[InitPlan, Project]:
    function = named_function(args.what)
    if function is None:
        project = find_project(args.what)
        plan = _plan_example(project, args) if args.example else _plan_first_suite(project, args)
        return plan, project
    for option in ("agent", "example", "with_prompts"):
        if getattr(args, option):
            shown = f"--{option.replace('_', '-')}"
            raise UsageMistake(f"{shown} is for an example, and {function.call} is an agent of your own")
    project = find_project(None)
    return _plan_around(function, project, args), project


def _init_lines(document: InitDocument) -> Iterator[str]:
    verb = "would write" if document.dry_run else "wrote"
    yield printable(f"{verb}, in {document.root}")
    yield from (f"  {printable(line)}" for line in _folder_lines(document.written))
    for name in document.added_to:
        yield f"  {name} (lines at its end)"
    for name in document.left:
        yield f"left as it is: {name}"
    for step in document.steps:
        yield printable(step.title)
        yield f"  {printable(step.line)}"
    if document.change:
        yield "change first"
        yield from (f"  {printable(line)}" for line in document.change)


def _folder_lines(names: tuple[str, ...]) -> Iterator[str]:
    """Group files by the two upper folders that they lie in; files without a folder come last."""
    folders: dict[str, list[str]] = {}
    for name in names:
        parts = name.split("/")
        depth = min(2, len(parts) - 1)
        folders.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
    for folder, own in sorted(folders.items(), key=lambda item: item[0] == ""):
        listed = ", ".join(own) if len(own) <= MOST_FILES_NAMED else f"{len(own)} files"
        yield f"{folder}/  {listed}" if folder else listed


def _cd_prefix(root: Path) -> str:
    """Give what takes a shell to the project's root, where commands find runs and files by short names."""
    here = Path.cwd()
    return "" if here == root else f"cd {shlex.quote(os.path.relpath(root, here))} && "


def _program_command(name: str, root: Path) -> str:
    """Give the command that starts a program of this environment, from the project's root."""
    ours = Path(sys.executable).parent
    on_path = shutil.which(name)
    # A program of another environment on PATH would not know this package.
    if on_path and Path(on_path).parent == ours:
        return name
    beside = shutil.which(name, path=str(ours))
    words: Sequence[str] = [beside] if beside else [sys.executable, "-m", name]
    program = path_in_root(Path(words[0]), root) if Path(words[0]).is_relative_to(root) else words[0]
    return shlex.join([program, *words[1:]])


class Starter(NamedTuple):
    """A kind of first suite: its name, what to change first, and pytest's options for it to run offline."""

    suite: str
    change: tuple[str, ...]
    options: tuple[str, ...] = ()


_AGENT = "the agent: `agent: {call: package.module:function}` in {{folder}}/suite.yaml names yours"
_RECORD = "record it: {{pytest}} {{folder}} --agent-record-chat=all"
_OFFLINE = "run it, offline and without a key"

STARTERS: Mapping[str, Starter] = {
    "python": Starter("orders", (_AGENT, _RECORD)),
    "command": Starter(
        "museum",
        (
            "the agent: `agent: {command: [...]}` in {{folder}}/suite.yaml names your program",
            "in Node or bash: {{folder}}/suite.yaml has the same program in both",
            _RECORD,
        ),
    ),
    "tools": Starter(
        "units",
        (
            "the tools: the functions of {{folder}}/tools.py",
            "no LLM, mediocre on purpose: {{pytest}} {{folder}}",
            "a real model: OPENAI_API_KEY=... {{pytest}} {{folder}} --agent-model=gpt",
        ),
        ("--agent-model=oracle",),
    ),
    "workspace": Starter(
        "notes", (_AGENT, "where a trial starts: the files of workspace/ beside each task.yaml", _RECORD)
    ),
}


def _starter_files(kind: str, suite: str, project: Project) -> list[NewFile]:
    folder = project.evals / suite
    # The program needs no library, so any Python does, with a virtual environment or without.
    found = shutil.which("python3")
    words = {
        "suite": suite,
        "module": module_name(suite),
        # On Windows python3 may be a stub that only leads to the Store.
        "python": "python3" if found and "WindowsApps" not in found else "python",
    }
    templates = Path(__file__).parent / "templates" / kind
    written = (
        NewFile(
            _target_path(path.relative_to(templates).as_posix(), folder, suite, project.root),
            fill(path.read_bytes().decode(), words).encode(),
        )
        for path in _files_below(templates)
    )
    # The files of the suite come first, its recordings after them.
    return sorted(written, key=lambda file: (not file.path.is_relative_to(folder), file.path))


def _files_below(folder: Path) -> list[Path]:
    # An installer may have compiled files that end with .py.
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def _target_path(path: str, folder: Path, suite: str, root: Path) -> Path:
    top, _, below = path.partition("/")
    if top == RECORDINGS:  # TASK.chat/MODEL-REPETITION.yaml
        task, _, name = below.partition(".chat/")
        return Path(f"{recordings_of(folder / f'{task}.yaml', root)}.chat", name)
    return folder / (f"{module_name(suite)}_bot.py" if path == "bot.py" else path)


def _example_files(example: Example, project: Project) -> list[NewFile]:
    folder = example.folder
    if folder is None:
        parts = ", ".join(example.parts)
        raise UsageMistake(f"the example {example.name!r} was not installed: copy {parts} from its clone")
    return [
        NewFile(project.root / part / path.relative_to(folder / part), path.read_bytes())
        for part in example.parts
        for path in _files_below(folder / part)
    ]


class InitPlan(NamedTuple):
    """The files to write, those that stay as they are, what to do next, and what to change first."""

    suite: str
    files: tuple[NewFile, ...]
    steps: tuple[NextStep, ...]
    change: tuple[str, ...]
    left: tuple[Path, ...] = ()


def _pytest_command(project: Project, arguments: str) -> str:
    return f"{_cd_prefix(project.root)}{_program_command('pytest', project.root)} {arguments}"


def _suite_folder(project: Project, name: str) -> Path:
    """Give the folder of a new suite; raises UsageMistake for a name that is taken or cannot be one."""
    if not _SUITE_NAME.fullmatch(name):
        raise UsageMistake(f"--suite={name}: expected letters, digits, _ and -, with a letter first")
    folder = project.evals / name
    _refuse_taken_name(project, name, folder)
    return folder


def _refuse_overwriting(files: Sequence[NewFile], args: argparse.Namespace) -> None:
    if not args.force:
        refuse_existing(files, "--force writes over them, --suite NAME gives the suite another name")


def _plan_around(function: NamedFunction, project: Project, args: argparse.Namespace) -> InitPlan:
    """Plan one suite.yaml around an agent of the user's own, and the settings that pytest lacks."""
    acting = import_function(function, project.root)
    name = args.suite or function.suite
    folder = _suite_folder(project, name)
    template = Path(__file__).parent / "templates" / "own" / "suite.yaml"
    text = fill(template.read_text(encoding="utf-8"), {"suite": name, "call": function.call})
    file = NewFile(folder / "suite.yaml", text.encode())
    _refuse_overwriting([file], args)
    below = path_in_root(folder, project.root)
    more = () if takes_prompt(acting) else prompt_notes(function)
    return InitPlan(
        name,
        (file, *(each for each in shared_files(project) if each.path.name != "AGENTS.md")),
        tuple(
            NextStep(title, line.format(name=name, pytest=_pytest_command(project, shlex.quote(below))))
            for title, line in FIRST_STEPS.items()
        ),
        (f"the second task in {below}/suite.yaml", *more, *_packaging_notes(project.root, [file])),
    )


def _plan_first_suite(project: Project, args: argparse.Namespace) -> InitPlan:
    if args.with_prompts:
        raise UsageMistake("--with-prompts copies the prompts of an example: name one with --example")
    kind = args.agent or "python"
    starter = STARTERS[kind]
    name = args.suite or starter.suite
    folder = _suite_folder(project, name)
    files = _starter_files(kind, name, project)
    _refuse_overwriting(files, args)
    below = path_in_root(folder, project.root)
    arguments = shlex.join([below, *starter.options])
    of_github = workflow(project, name, f"pytest {arguments}")
    # A workflow that is there already stays; a line says what to add to it.
    stays = of_github.path.exists() and not args.force
    words = {"folder": below, "pytest": _program_command("pytest", project.root)}
    return InitPlan(
        name,
        (*files, *shared_files(project), *(() if stays else (of_github,))),
        (NextStep(_OFFLINE, _pytest_command(project, arguments)),),
        change=(
            *(fill(line, words) for line in starter.change),
            *_packaging_notes(project.root, files),
            *_workflow_notes(project, of_github, arguments, stays=stays),
        ),
        left=(of_github.path,) if stays else (),
    )


def _packaging_notes(root: Path, files: Sequence[NewFile]) -> Iterator[str]:
    if added := packaging_lines(root, files):
        file, *lines = added
        yield f"packaging: add to {file}, else setuptools finds several packages"
        yield from (f"  {line}" for line in lines)


def _workflow_notes(project: Project, workflow: NewFile, arguments: str, *, stays: bool) -> Iterator[str]:
    """Give lines on what the author has to change in the workflow."""
    name = path_in_root(workflow.path, project.root)
    if stays:
        yield f"the workflow: `- run: pytest {arguments}` among the steps of {name}"
        return
    if FILL_IN in workflow.content.decode():
        yield f"the workflow: {FILL_IN} in {name}: where pip gets pytest-agenteval from"


def _plan_example(project: Project, args: argparse.Namespace) -> InitPlan:
    if args.suite:
        raise UsageMistake("--suite: an example keeps its name, by which its recordings are found")
    example = installed_registry().example_named(args.example)
    _refuse_taken_name(project, args.example, project.root / example.parts[0])
    files = _example_files(example, project)
    notes: list[str] = []
    if args.with_prompts:
        files = _with_prompts(files, example, project.root)
        notes.append(f"the prompts: prompts/{example.name}/*.md, which {example.parts[0]}/suite.yaml names")
    if not args.force:
        refuse_existing(files, "--force writes over them")
    notes += _packaging_notes(project.root, files)
    run = NextStep(_OFFLINE, _pytest_command(project, example.parts[0]))
    return InitPlan(args.example, (*files, *shared_files(project)), (run,), tuple(notes))


def _with_prompts(files: Sequence[NewFile], example: Example, root: Path) -> list[NewFile]:
    """Add a file for each prompt of the example's agent, and their names to the example's suite.yaml.

    The texts are those that the agent has without them, so scores stay as they are until a file changes.
    """
    suite = next(file for file in files if file.path == root / example.parts[0] / "suite.yaml")
    agent = yaml.safe_load(suite.content)["agent"]
    texts = agent_trait(installed_registry().agent_factory(agent), "templates")
    if not texts:
        raise UsageMistake(
            f"--with-prompts: the agent {agent!r} has no prompt files; the prompt of this example is "
            f"settings.system in {example.parts[0]}/suite.yaml"
        )
    folder = root / "prompts" / example.name
    prompts = [NewFile(folder / f"{name}.md", text.encode()) for name, text in texts.items()]
    below = Path(os.path.relpath(folder, suite.path.parent)).as_posix()
    named = "".join(f"  {name}: {below}/{name}.md\n" for name in texts)
    changed = NewFile(suite.path, suite.content + f"prompts:\n{named}".encode())
    return [*(changed if file is suite else file for file in files), *prompts]


def _refuse_taken_name(project: Project, name: str, folder: Path) -> None:
    """Raise UsageMistake where a suite in another folder has this name: pytest would refuse both."""
    file = project.suites.get(name)
    if file is not None and file.parent != folder:
        place = short_path(file)
        raise UsageMistake(
            f"a suite is called {name!r} already: {place}; --suite NAME gives this one another"
        )


class ListedImporter(FrozenValue, frozen=True):
    """An importer, what it is for, and why it cannot be used: empty where it can."""

    name: str
    help: str
    problem: str


class Import(FrozenValue, frozen=True):
    """The arguments of an importer, and what it printed; its exit status is 0 where all of it can be used."""

    importer: str
    arguments: tuple[str, ...]
    exit_status: int
    lines: tuple[str, ...]


class ImportDocument(Document, frozen=True, kw_only=True):
    """What was imported; ``imported`` is null where no importer was named, and ``importers`` lists all then.

    ``broken_benchmarks`` say which installed benchmarks could not be loaded.
    """

    importers: tuple[ListedImporter, ...]
    broken_benchmarks: tuple[str, ...]
    imported: Import | None


class _Tee(io.StringIO):
    """What an importer prints, also written to a screen as it comes, if there is one."""

    def __init__(self, screen: TextIO | None) -> None:
        super().__init__()
        self._screen = screen

    def write(self, text: str) -> int:
        if self._screen is not None:
            self._screen.write(text)
        return super().write(text)


def import_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the importer's name and the rest, which the importer itself parses."""
    parser.add_argument("importer", nargs="?", metavar="NAME", help="which importer; none lists them")
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER, metavar="...", help="its own arguments: import NAME -h"
    )
    add_json_option(parser)


def import_(args: argparse.Namespace) -> int:
    """Run the importer of this name; without a name, list the importers.

    0 when everything that was imported can be used, else 1. Only the importer that is named is loaded.
    """
    registry = installed_registry()
    if args.importer is None:
        listed, broken = tuple(_listed_importers(registry)), tuple(registry.broken_benchmarks)
        document = ImportDocument(importers=listed, broken_benchmarks=broken, imported=None)
        write_result(args.json, document, _list_lines(document))
        return 0
    imported = _imported(args, registry)
    document = ImportDocument(importers=(), broken_benchmarks=(), imported=imported)
    write_result(args.json, document, ())
    return imported.exit_status


def _imported(args: argparse.Namespace, registry: Registry) -> Import:
    name = args.importer
    importer = registry.importer_named(name)
    parser = argparse.ArgumentParser(prog=f"agenteval import {name}", description=importer.help)
    try:
        importer.add_arguments(parser)
    except argparse.ArgumentError as taken:
        raise UsageMistake(f"the importer {name!r} declares an argument twice: {taken}") from None
    try:
        add_json_option(parser)
        # --json may also stand after the importer's name.
        options = parser.parse_args(args.rest)
        args.json = options.json or args.json
    except argparse.ArgumentError:  # the importer has another option of that name
        options = parser.parse_args(args.rest)
    heard = _Tee(None if args.json == STDOUT else sys.stdout)
    with redirect_stdout(heard):
        status: object = importer.run(options, registry)
    # Without a return the importer would seem to have had success.
    if not isinstance(status, int):
        raise UsageMistake(f"the importer {name!r}: expected an exit status, 0 or 1; found {status!r:.80}")
    return Import(name, tuple(args.rest), status, tuple(heard.getvalue().splitlines()))


def _listed_importers(registry: Registry) -> Iterator[ListedImporter]:
    for name in registry.importers:
        try:
            yield ListedImporter(name, registry.importer_named(name).help, "")
        except UsageMistake as broken:
            yield ListedImporter(name, "", str(broken))


def _list_lines(document: ImportDocument) -> Iterator[str]:
    if not document.importers:
        yield "there are no importers: no benchmark that brings one is installed"
    for each in document.importers:
        yield f"{each.name}: {f'cannot be used: {each.problem}' if each.problem else each.help}"
    yield from document.broken_benchmarks
