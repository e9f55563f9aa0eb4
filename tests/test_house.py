"""The rules of the house: imports only go down, no asserts, small modules, no traces of one machine.

The rules and their reasons are in docs/architecture.md and CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "scalewall"
MODULES = sorted(PACKAGE.rglob("*.py"))

FACE = "the public face"  # scalewall itself, which gathers names from all floors
FLOORS: list[set[str]] = [
    {"errors"},
    {"units"},
    {"schema"},
    {"hardware", "workload"},
    {"cost"},
    {"strategy"},
    {"study"},
    {"present"},
    {FACE},
    {"cli", "web"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
EXEMPT = {"__init__.py", "__main__.py"}  # the face's own modules

MOST_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_FUNCTION = 60

# Put together here, so that this file does not contain what it forbids.
REGISTRY_HOSTS = [
    "files.python" + "hosted.org",
    "pypi" + ".org",
    "registry.npm" + "js.org",
    "deb.debian" + ".org",
]
MACHINE_PATHS = ["/work" + "/shared", "/work" + "/main", "/work" + "/.library", "/root" + "/"]
FORBIDDEN = [text.encode() for text in REGISTRY_HOSTS + MACHINE_PATHS]
LEFT_OUT = {".git", ".venv", ".hypothesis", ".benchmarks", "__pycache__", "_build", "build", "dist"}

each_module = pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())


# Imports


def imported_rooms(tree: ast.AST, inside: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the room of each import of scalewall in a module of the package `inside`."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = inside.split(".")[: len(inside.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, node.module or ""]).strip(".")
            # Only "from scalewall import x" can mean a room x; deeper, the base already names it.
            names = [f"{base}.{alias.name}" if base == "scalewall" else base for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first == "scalewall":
                yield node.lineno, rest[0] if rest and rest[0] in FLOOR_OF else FACE


def upward_imports(source: str, relative: str) -> list[str]:
    """Return the imports that do not go down, of a module at `relative` (``cost/matmul.py``)."""
    parts = relative.split("/")
    room = parts[0].removesuffix(".py")
    found = imported_rooms(ast.parse(source), ".".join(["scalewall", *parts[:-1]]))
    return [
        f"{relative}:{line}: {room} imports {other}, which is not below it"
        for line, other in sorted(set(found))
        if other != room and FLOOR_OF[other] >= FLOOR_OF[room]
    ]


def test_there_are_modules_to_check():
    assert MODULES


@each_module
def test_every_module_is_in_a_room(path):
    relative = path.relative_to(PACKAGE).as_posix()
    room = relative.split("/")[0].removesuffix(".py")
    assert relative in EXEMPT or room in FLOOR_OF, f"{relative} is on no floor; the floors are {FLOORS}"


@each_module
def test_imports_only_go_down(path):
    relative = path.relative_to(PACKAGE).as_posix()
    if relative not in EXEMPT:
        assert not upward_imports(path.read_text(encoding="utf-8"), relative)


@pytest.mark.parametrize(
    ("relative", "source", "goes_up"),
    [
        ("cost/step.py", "from scalewall.hardware.device import Device", False),
        ("cost/step.py", "from ..hardware import device", False),
        ("cost/step.py", "from . import matmul", False),
        ("cost/step.py", "from .matmul import seconds", False),
        ("cost/step.py", "import numpy", False),
        ("cost/step.py", "import scalewall.study.limits", True),
        ("cost/step.py", "from ..strategy.search import best", True),
        ("cost/step.py", "from .. import strategy", True),
        ("cost/step.py", "from scalewall import units, present", True),
        ("cost/step.py", "def f():\n    from scalewall import web", True),
        ("cost/step.py", "if TYPE_CHECKING:\n    import scalewall.cli as c", True),
        ("cost/step.py", "from scalewall import plan", True),
        ("cost/step.py", "import scalewall", True),
        ("cost/deep/er.py", "from ...units import parse", False),
        ("cost/deep/er.py", "from ...study import plan", True),
        ("cost/deep/er.py", "from .. import study", False),  # scalewall.cost.study, not scalewall.study
        ("hardware/device.py", "from scalewall.workload import model", True),
        ("workload/model.py", "from ..hardware.device import Device", True),
        ("units.py", "from .errors import InputError", False),
        ("errors.py", "from . import units", True),
        ("errors.py", "from .units import show", True),
        ("cli.py", "import scalewall", False),
        ("web/page.py", "from scalewall import cli", True),
    ],
)
def test_an_import_that_goes_up_is_seen(relative, source, goes_up):
    assert bool(upward_imports(source, relative)) is goes_up


# Asserts and sizes


@each_module
def test_no_assert(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert not lines, f"assert in lines {lines}: raise an error of scalewall.errors instead"


def oversized(source: str) -> list[str]:
    """Return what is too long in `source`, unless a comment ``# size: …`` in it says why."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    if any(re.match(r"# size:\s*\S", comment) for comment in comments):
        return []
    lines = len(source.splitlines())
    found = [f"the module has {lines} lines"] if lines > MOST_LINES_OF_A_MODULE else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_LINES_OF_A_FUNCTION:
                found.append(f"{node.name} in line {node.lineno} has {length} lines")
    return found


@each_module
def test_sizes(path):
    assert not oversized(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1\n" * 400, 0),
        ("x = 1\n" * 401, 1),
        ("def f():\n" + "    x = 1\n" * 59, 0),
        ("async def f():\n" + "    x = 1\n" * 60, 1),
        ("# size: one table, read as a whole\n" + "x = 1\n" * 401, 0),
        ("# size:\n" + "x = 1\n" * 401, 1),
        ("'# size: not a comment'\n" + "x = 1\n" * 401, 1),
    ],
)
def test_what_is_oversized(source, found):
    assert len(oversized(source)) == found


# The tree


def files_of_the_tree() -> list[Path]:
    """Return the files that git tracks or would add; without git, all but builds and caches."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = b""
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    if names:
        return [path for path in (ROOT / name for name in names) if path.is_file()]
    found = []
    for directory, below, files in os.walk(ROOT):
        below[:] = [name for name in below if name not in LEFT_OUT and not name.endswith("_cache")]
        found += [Path(directory, name) for name in files]
    return found


def test_no_registry_hosts_or_machine_paths():
    files = files_of_the_tree()
    assert Path(__file__).resolve() in files
    held = [
        f"{path.relative_to(ROOT)} holds {text.decode()}"
        for path in files
        for content in [path.read_bytes().lower()]
        for text in FORBIDDEN
        if text in content
    ]
    assert not held
