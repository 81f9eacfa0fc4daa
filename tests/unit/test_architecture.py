"""The import direction, by the source itself: `if TYPE_CHECKING` and imports inside functions count as well."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import re
import sys
from collections import Counter
from pathlib import Path

from tests.loops import each

import retrieval_client
import workbench
import worker

ROOT = Path(worker.__file__).parent
CLIENT = Path(retrieval_client.__file__).parent
WORKBENCH = Path(str(workbench.__file__)).parent
PURE_STDLIB_MISSING = {"time", "random", "secrets", "uuid", "datetime", "logging", "os", "io", "pathlib", "socket"}
PURE_STDLIB_MISSING |= {"subprocess", "threading", "asyncio", "tempfile", "urllib", "http", "importlib", "ctypes"}

# Lowest first. A module may import what stands below it, and modules of its own layer's folder. Below all stands
# `retrieval_client`, a distribution of its own.
LAYERS = [
    {"errors", "client", "model"},
    {"core"},
    {"settings"},
    {"adapters"},
    {"jobs"},
    {"queue"},
    {"inspector"},
    {"cli"},
    {"app"},
]
# The same within `workbench`, which stands above `worker`.
WORKBENCH_LAYERS = [
    {"core"},
    {"adoption", "calibration", "devstack", "evaluation", "schemas", "starter_files"},
    {"demo"},
    {"commands"},
    {"main"},
    {"__main__"},
]
PURE_OF_THE_CLIENT = {f"retrieval_client.{name}" for name in ("canonical", "errors", "hashing", "json_values")}
OPTIONAL = {
    "retrieval_client.celery": {"celery"},
    "retrieval_client.jobs": {"jwt"},
    "retrieval_client.pytest_plugin": {"pytest"},
}
# The same within `retrieval_client`.
CLIENT_LAYERS = [
    {"canonical", "errors", "hashing", "json_values"},
    {"contract"},
    {"connection"},
    {"jobs", "subscription"},
    {"asynchronous", "blocking"},
    {"celery", "ledger", "testing"},
    {"pytest_plugin"},
    {"retrieval_client"},
]
CLIENT_RANK = {name: rank for rank, layer in enumerate(CLIENT_LAYERS) for name in layer}
# The same within `core`.
CORE_LAYERS = [{"text", "pins"}, {"ranking", "citations"}, {"prompting"}]
PLACES = {f"worker.{name}": rank for rank, layer in enumerate(LAYERS) for name in layer}
PLACES |= {f"workbench.{name}": len(LAYERS) + rank for rank, layer in enumerate(WORKBENCH_LAYERS) for name in layer}


def sources_of(package: Path) -> dict[str, Path]:
    """The files of a package by the full names of their modules."""
    names = {path: path.relative_to(package.parent).with_suffix("").parts for path in sorted(package.rglob("*.py"))}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}


CLIENT_SOURCES = sources_of(CLIENT)
WORKER_SOURCES = sources_of(ROOT).keys()
WORKBENCH_SOURCES = sources_of(WORKBENCH).keys()
SOURCES = sources_of(ROOT) | sources_of(WORKBENCH) | CLIENT_SOURCES
PLACED = (WORKER_SOURCES | WORKBENCH_SOURCES) - {"worker", "workbench"}


@functools.cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


@functools.cache
def parsed(name: str) -> ast.Module:
    """The source of a module."""
    return ast.parse(SOURCES[name].read_text())


def imports(name: str) -> set[str]:
    """Full names of the modules that a module imports anywhere in its source."""
    found: set[str] = set()
    for node in ast.walk(parsed(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative imports hide where they lead"
            base = str(node.module)
            inside = {f"{base}.{alias.name}" for alias in node.names} & SOURCES.keys()
            found |= inside or {base}
    return found


def ours(name: str) -> set[str]:
    return {
        imported for imported in imports(name) if imported.split(".")[0] in {"worker", "workbench", "retrieval_client"}
    }


def place(name: str) -> str:
    """The beginning of a full name that has a place among the layers."""
    return ".".join(name.split(".")[:2])


def test_the_top_of_the_package_stays_small() -> None:
    """The composition root, the client, errors and the vocabulary; everything else lives in a wing."""
    assert {path.stem for path in ROOT.glob("*.py")} == {"__init__", "app", "client", "errors", "model"}


def users_of(*packages: str) -> set[str]:
    return {name for name in SOURCES if {imported.split(".")[0] for imported in imports(name)} & {*packages}}


def within(*names: str) -> set[str]:
    """Modules of these parts of the worker and the workbench."""
    return {name for name in PLACED if place(name).partition(".")[2] in names}


def test_the_sources_are_found() -> None:
    """The other tests read what is there: a path that changed would let them pass on nothing."""
    assert {
        "worker.model",
        "worker.core.ranking.total_order",
        "worker.adapters.postgres.database",
        "worker.queue.tasks",
    } <= SOURCES.keys()
    assert ours("worker.queue.tasks") >= {
        "retrieval_client.contract.registry",
        "retrieval_client.contract.run_jobs",
        "worker.jobs.context",
        "worker.settings",
    }


@each(["worker.model", "retrieval_client.errors"])
def test_the_vocabulary_imports_nothing_of_ours(name: str) -> None:
    """Every layer speaks the same nouns, so they stand below all."""
    assert ours(name) == set()


@each(sorted(within("core")))
def test_the_core_is_pure(name: str) -> None:
    """Stdlib, numpy and base64, the vocabulary and itself: no clock, no randomness, no logging, no I/O."""
    allowed = {"worker.model", *PURE_OF_THE_CLIENT} | within("core")
    packages = {imported.split(".")[0] for imported in imports(name) - ours(name)}
    assert ours(name) <= allowed
    assert packages <= sys.stdlib_module_names | {"numpy", "pybase64"}
    assert not packages & PURE_STDLIB_MISSING
    calls = {
        node.func.id
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "print", "input", "exec", "eval", "__import__"}


def test_one_module_of_the_core_asks_the_unicode_data_of_the_interpreter() -> None:
    """Others would get from it what changes with the Python version."""
    assert users_of("unicodedata") & within("core") == {"worker.core.text.unicode_data"}


@each(sorted(CLIENT_SOURCES))
def test_the_client_imports_nothing_of_the_worker(name: str) -> None:
    """A distribution of its own: Redis, pydantic, and what only who asks for it needs."""
    packages = {imported.split(".")[0] for imported in imports(name)}
    needed = {"retrieval_client", "redis", "pydantic", "pydantic_core", "typing_extensions"}
    assert packages <= sys.stdlib_module_names | needed | OPTIONAL.get(name, set())


def in_client(name: str) -> str:
    """The part of the client that a module belongs to; the package itself stands above all."""
    return [*name.split("."), "retrieval_client"][1]


@each(sorted(CLIENT_SOURCES))
def test_the_client_has_one_direction(name: str) -> None:
    """Errors and hashes below the contract, this below connections, these below what speaks to Redis."""
    for imported in ours(name):
        if in_client(imported) != in_client(name):
            assert CLIENT_RANK[in_client(imported)] < CLIENT_RANK[in_client(name)], imported


def test_only_what_sends_jobs_uses_the_client_like_a_backend() -> None:
    """The inspector and the command line do; the others share the contract, errors and hashes with it."""
    shared = {name for name in CLIENT_SOURCES if CLIENT_RANK[in_client(name)] <= CLIENT_RANK["contract"]}
    users = {name for name in WORKER_SOURCES if ours(name) & CLIENT_SOURCES.keys() - shared}
    assert users
    assert users <= within("inspector", "cli", "client")


def test_the_contract_can_be_used_without_the_client() -> None:
    """The types of jobs and answers: errors, how paths and hashes are written, nothing else of ours."""
    contract = {name for name in CLIENT_SOURCES if name.startswith("retrieval_client.contract")}
    others = {imported for name in contract for imported in ours(name)} - contract
    assert others == {"retrieval_client.errors", "retrieval_client.hashing", "retrieval_client.json_values"}


@each(sorted(within("adapters")))
def test_adapters_know_nobody_above_them(name: str) -> None:
    """Postgres and embedding servers are used by the engine, and know nothing of tasks or the command line."""
    below = within("model", "settings", "core", "adapters") | CLIENT_SOURCES.keys()
    assert ours(name) <= below


def test_only_the_shell_sees_celery() -> None:
    """The engine, the core and the adapters would run under another queue as they are."""
    shell = within("queue", "app") | {"workbench.devstack.workers", "retrieval_client.celery"}
    assert users_of("celery", "kombu", "billiard") <= shell


def test_only_the_shell_sees_postgres_and_redis() -> None:
    """SQL and sockets stand at the edge."""
    assert (
        users_of("psycopg", "psycopg_pool", "pgvector", "redis")
        <= within("adapters", "queue", "cli") | within("adoption", "demo", "devstack") | CLIENT_SOURCES.keys()
    )


def test_only_the_inspector_needs_its_extra() -> None:
    """Inside functions too: only its faces import it, and only two commands its faces; views and text need nothing."""
    plain = ("worker.inspector.view", "worker.inspector.text")
    drawing = {name for name in within("inspector") if not name.startswith(plain)}
    assert users_of("textual", "starlette", "jinja2", "markupsafe", "uvicorn") <= drawing
    users = {name for name in SOURCES if imports(name) & drawing} - drawing
    assert users == {"worker.cli.commands.inspector", "worker.cli.commands.ui"}


FOREIGN = {"tests": {"benchmarks"}, "benchmarks": {"tests"}, "synthetic": {"tests", "benchmarks", "chaos"}}
FOREIGN |= {"workbench": FOREIGN["synthetic"] | {"synthetic"}}
FOREIGN |= {"worker": FOREIGN["workbench"] | {"workbench"}}


def packages_imported(source: str) -> set[str]:
    """First parts of the names that a source imports."""
    nodes = [*ast.walk(_tree(source))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.split(".")[0] for name in names}


@each(FOREIGN)
def test_no_test_imports_a_benchmark_and_the_worker_imports_neither(folder: str) -> None:
    """Tests and benchmarks share `synthetic`, which imports neither; nor does the worker import its workbench."""
    home = ROOT.parent / folder
    # `benchmarks/.peers` holds environments of others.
    files = [path for path in home.rglob("*.py") if not any(p.startswith(".") for p in path.relative_to(home).parts)]
    assert files
    wrong = {path: packages_imported(path.read_text()) & FOREIGN[folder] for path in files}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_the_check_of_imported_packages_sees_each_way() -> None:
    """The check itself: a package, a module of it, an import inside a function."""
    for source in ("import benchmarks", "import benchmarks.x as y", "def f():\n    from benchmarks.x import y"):
        assert packages_imported(source) == {"benchmarks"}
    assert packages_imported("from . import benchmarks") == set()


def test_every_module_has_its_place() -> None:
    """A new module is put among the layers before it can import anything."""
    assert {place(name) for name in PLACED} == PLACES.keys()


@each(sorted(PLACED))
def test_nothing_imports_up(name: str) -> None:
    """One direction: a module knows what stands below it, and its own package."""
    up = {
        imported
        for imported in ours(name) & PLACED
        if place(imported) != place(name) and PLACES[place(imported)] >= PLACES[place(name)]
    }
    assert up == set()


def part(name: str) -> str:
    """The folder of a module of the core, or nothing for what all of its folders may use."""
    parts = name.split(".")
    return parts[2] if len(parts) > 3 else ""


@each(sorted(within("core")))
def test_the_core_has_one_direction(name: str) -> None:
    """Text below ranking and citations, these below prompting."""
    rank = {folder: place for place, layer in enumerate(CORE_LAYERS) for folder in layer}
    for imported in ours(name) & within("core"):
        folders = part(name), part(imported)
        if folders[0] and folders[1] and folders[0] != folders[1]:
            assert rank[folders[1]] < rank[folders[0]], imported


def test_only_settings_and_the_command_line_read_the_environment() -> None:
    """Everything else gets a validated value.

    `devstack` hands an environment on to the servers it starts; `metrics` sets prometheus_client's only variable.
    """
    readers = {name for name in PLACED if _reads_environment(parsed(name))}
    set_by = {
        "worker.queue.metrics",
        "worker.adapters.providers.onnx_encoder",
    }  # settings of libraries, before import
    assert readers <= within("settings", "cli") | within("commands", "devstack") | set_by


def _reads_environment(tree: ast.Module) -> bool:
    names = {"environ", "environb", "getenv", "getenvb", "putenv"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return bool(names & (attributes | imported))


def test_the_environment_check_sees_each_way() -> None:
    """The check itself: an attribute, a function, an import from `os`."""
    for source in ("os.environ['X']", "os.getenv('X')", "from os import environ", "import os as o\no.environ.get('X')"):
        assert _reads_environment(_tree(source))
    assert not _reads_environment(ast.parse("environment = {}"))


def docstrings(source: str) -> list[str]:
    """Docstrings of a source: its own, and those of its classes and functions."""
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    return [ast.get_docstring(node) or "" for node in ast.walk(_tree(source)) if isinstance(node, documented)]


@each(["benchmarks", "chaos", "client", "docs", "examples", "synthetic", "tests", "workbench", "worker"])
def test_a_docstring_begins_with_a_verb_or_a_noun(folder: str) -> None:
    """No docstring begins with "What" or "Whatever", which leaves the subject unsaid."""
    home = ROOT.parent / folder
    files = [path for path in home.rglob("*.py") if not any(p.startswith(".") for p in path.relative_to(home).parts)]
    assert files
    assert [(path, text) for path in files for text in docstrings(path.read_text()) if text.startswith("What")] == []


RAISED = re.compile(r"^    ([\w.]+(?:, [\w.]+)*): ", re.MULTILINE)


def names_raised(docstring: str) -> set[str]:
    """Names of the classes in the `Raises` section."""
    _, _, end = docstring.partition("Raises:\n")
    section, *_ = re.split(r"^(?=\S)", end, flags=re.MULTILINE)
    return {name for names in RAISED.findall(section) for name in names.split(", ")}


def exists(name: str) -> bool:
    """Whether Python or an installed package has a class of that name."""
    package, _, place = name.rpartition(".")
    return hasattr(importlib.import_module(package) if package else builtins, place)


def test_a_docstring_raises_classes_that_exist() -> None:
    """Each class in a `Raises` section: of the project, of Python, or of an installed package."""
    home = ROOT.parent
    folders = [
        home / folder for folder in ("benchmarks", "chaos", "client", "synthetic", "tests", "workbench", "worker")
    ]
    files = [path for folder in folders for path in folder.rglob("*.py") if "/." not in str(path.relative_to(home))]
    sources = {path: path.read_text() for path in files}
    of_project = {name for source in sources.values() for name in re.findall(r"^ *class (\w+)", source, re.MULTILINE)}
    raised = {
        (path, name) for path, source in sources.items() for text in docstrings(source) for name in names_raised(text)
    }
    assert len(raised) > 100
    assert {(path, name) for path, name in raised if name not in of_project and not exists(name)} == set()


EMPTY_WORDS = (  # noqa: SIM905 -- as a text, they are read
    "one found some given own other others made wanted asked kept known left several every each both more most"
    " first last before after now again said written read there here taken done whole part parts many few wide"
    " deep later told it them what how by of meant shown sent named stated unknown"
).split()
SHARES = {
    "worker/adapters": 0.006,
    "worker/cli": 0.002,
    "worker/core": 0.008,
    "worker/inspector": 0.003,
    "worker/jobs": 0.009,
    "worker/queue": 0.002,
    "worker/settings": 0.003,
    "workbench": 0.003,
    "client": 0.007,
    "chaos": 0.003,
    "synthetic": 0.0,
}
"""Folder → largest share of its names that may say nothing. Lower it with the share; never raise it."""


def bound_names(source: str) -> list[str]:
    """Names that a source binds: its variables and parameters, as often as they are bound."""
    nodes = [*ast.walk(_tree(source))]
    variables = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return variables + [node.arg for node in nodes if isinstance(node, ast.arg)]


def test_a_name_says_what_it_holds() -> None:
    """Variables and parameters are named by the noun of their type; `found` or `other` say nothing of it."""
    for folder, largest in SHARES.items():
        names = [name for path in (ROOT.parent / folder).rglob("*.py") for name in bound_names(path.read_text())]
        empty = Counter(name for name in names if name in EMPTY_WORDS)
        assert len(names) > 100, folder
        assert empty.total() <= largest * len(names), (folder, empty.most_common(5))
