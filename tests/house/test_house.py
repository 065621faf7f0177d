"""The rules of the house, counted: who imports whom, what the help costs, sizes, docstrings, and the README's tree."""

import ast
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from claasbench.launch import study
from claasbench.launch._parts import configure
from claasbench.report import grouping, published

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "claasbench"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py"))

LEAVES = {"types", "errors", "draws", "prompts"}
BASES = {"scenarios.base", "learners.base", "policies.base", "attackers.base"}
MAY_IMPORT = {
    "types": set(),
    "errors": set(),
    "draws": {"errors"},
    "prompts": {"errors"},
    "registry": {"errors"},
    "models*": {"errors", "models*"},
    "config": {"errors", "types"},
    "metrics": {"types"},
    "stats": {"types", "metrics"},
    "store": {"types", "errors"},
    "rollout": {"policies.base", "scenarios.base"},
    "streams": set(),
    "record": {"store", "streams", "metrics", "rollout", "scenarios.base"},
    "opponents": {"attackers.base", "policies.base"},
    "runner": {"record", "rollout", "store", "streams", "opponents", "config", *BASES},
    "scenarios.base": set(),
    "scenarios.*": {"scenarios.base", "scenarios._*"},
    "policies.base": {"models"},
    "policies.*": {"models*", "policies.base", "policies._*"},
    "attackers.base": {"policies.base"},
    "attackers.*": {"attackers.base", "attackers._*", "policies.base"},
    "learners.base": {"policies.base"},
    "learners.*": {"learners.base", "policies.base", "learners._*", "training*"},
    "training*": {"models", "policies.base", "policies._attention", "training*"},
    "report*": {"metrics", "stats", "store", "report*"},
    "environment": {"store", "models", "registry", "policies.scripted", "rollout"},
    "progress": {"rollout"},
    "show": {"registry", "store"},
    "scaffold": set(),
    "launch*": {"*"},
    "cli": {"*"},
}
HEAVY = {"torch", "transformers", "vllm", "textarena", "pandas", "matplotlib", "pydantic", "numpy", "scipy"}
TORCH = ("training/*", "models/*", "policies/hf.py", "policies/_*.py", "environment.py")


def module(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__") or "__init__"


def imported(path):
    """Return the dotted names below claasbench that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "claasbench":
            inside = node.module.removeprefix("claasbench").lstrip(".")
            for alias in node.names:
                name = f"{inside}.{alias.name}".lstrip(".")
                target = PACKAGE / name.replace(".", "/")
                found.add(name if target.with_suffix(".py").exists() or target.is_dir() else inside)
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("claasbench.") for alias in node.names if alias.name.startswith("claasbench")
            }
    return {name for name in found if name}


@pytest.mark.parametrize("path", SOURCES, ids=module)
def test_imports_follow_the_table(path):
    own = module(path)
    if own in ("__init__", "scenarios", "learners", "policies", "attackers", "training"):
        return
    patterns = [own, *(key for key in MAY_IMPORT if "*" in key and fnmatch(own, key))]
    rule = next((MAY_IMPORT[key] for key in patterns if key in MAY_IMPORT), None)
    assert rule is not None, f"{own} has no line in the import table"
    everyone = set() if own in ("types", "errors", "draws", "prompts") else LEAVES
    for name in imported(path) - everyone:
        assert any(fnmatch(name, allowed) for allowed in rule), f"{own} may not import {name}"


@pytest.mark.parametrize("path", SOURCES, ids=module)
def test_torch_stays_in_its_rooms(path):
    text = path.read_text()
    name = path.relative_to(PACKAGE).as_posix()
    if re.search(r"^\s*(import|from) torch", text, re.M):
        assert any(fnmatch(name, room) for room in TORCH)


def test_help_is_light():
    code = (
        "import sys; sys.argv = ['claasbench', '--help']\n"
        "from claasbench import cli\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        f"print('HEAVY', sorted({HEAVY!r} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "HEAVY []" in found.stdout


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_lines(node):
    body = node.body
    has_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    body = body[1:] if has_docstring and len(body) > 1 else body
    return body[-1].end_lineno - body[0].lineno + 1


BLOCKS = (ast.If, ast.For, ast.While, ast.Try, ast.With)


def depth(node, level=0):
    deepest = level
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        chained = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]  # elif
        deepest = max(deepest, depth(child, level + (isinstance(child, BLOCKS) and not chained)))
    return deepest


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name != "cli.py"], ids=module)
def test_sizes(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    for node in functions(ast.parse(text)):
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        counted = [argument for argument in arguments if argument.arg not in ("self", "cls")]
        assert body_lines(node) <= 50, f"{node.name} is {body_lines(node)} lines long"
        assert len(counted) <= 6, f"{node.name} has {len(counted)} parameters"
        assert depth(node) <= 3, f"{node.name} nests {depth(node)} deep"


def public(tree):
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))


@pytest.mark.parametrize("path", SOURCES, ids=module)
def test_public_names_say_what_they_are(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module has no docstring"
    for node in public(tree):
        assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_methods_begin_with_their_departures():
    for path in (PACKAGE / "learners").glob("*.py"):
        if not path.name.startswith(("_", "base")):
            assert "Departures:" in ast.get_docstring(ast.parse(path.read_text())), path.name


def test_the_readme_tree_is_the_disk():
    text = (ROOT / "README.md").read_text()
    tree = re.search(r"```text\n(claasbench/\n.*?)```", text, re.S).group(1)
    named, stack = set(), []
    for line in tree.splitlines()[1:]:
        indent, name = re.match(r"( *)(\S+)", line).groups()
        stack = [*stack[: len(indent) // 2 - 1], name.rstrip("/")]
        if name.endswith(".py"):
            named.add("/".join(stack))
    files = {p.relative_to(PACKAGE).as_posix() for p in SOURCES if p.name != "__init__.py" or p.stat().st_size > 200}
    assert named == files


def plans(planned):
    """One plan for each method of a study, on rows of our generator: no network here."""
    for tables in (each.tables for each in planned if not any(each.tables.get("trial", {}).values())):
        scenario = tables["scenario"]
        yield configure(tables | {"scenario": scenario | ({"source": ""} if scenario.get("source") == "hub" else {})})


TABLES = sorted((ROOT / "experiments").rglob("*.toml"))


@pytest.mark.parametrize("path", [path for path in TABLES if path.stem != "published"], ids=lambda path: path.stem)
def test_every_study_file_is_a_study(path):
    planned = study.runs(path)
    for plan in plans(planned):
        assert plan.learner.needs <= plan.policies["learner"].offers
        assert (plan.config.scenario["data"] == "dev") == path.name.startswith("dev-")
    if path.name.startswith("dev-"):  # eight settings x two trials
        trials = Counter((each.values["trial.order"], each.values["trial.seed"]) for each in planned)
        assert trials == {(0, 0): 8, (1, 1): 8}


@pytest.mark.parametrize(
    "path", [path for path in TABLES if path.stem == "published"], ids=lambda path: path.parent.name
)
def test_published_numbers_are_of_their_study_and_its_unknowns_are_stated(path):
    planned = [plan.config.tables() for plan in plans(study.runs(path.parent / "study.toml"))]
    for number in published.read(path).numbers:
        if number.metric != published.ELSEWHERE:
            own = (number.scenario, number.method, number.model)
            assert any(
                own == (plan["scenario"]["name"], plan["learner"]["name"], plan["policy"]["model"])
                and number.where.items() <= dict(grouping.flat(plan)).items()
                for plan in planned
            ), number
    assert (path.parent / "UNKNOWNS.md").exists()


def test_docs_are_few_and_short():
    pages = list((ROOT / "docs").glob("*.md"))
    assert 0 < len(pages) <= 10
    assert all(len(page.read_text().splitlines()) <= 120 for page in pages)


def test_the_top_level_is_fixed():
    allowed = {"pyproject.toml", "README.md", "CITATION.cff", "LICENSE", "CONTRIBUTING.md", "constraints.txt"}
    allowed |= {"claasbench", "experiments", "results", "tests", "benchmarks", "docs"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        top = {name.split("/")[0] for name in tracked.stdout.splitlines()}
        assert {name for name in top if not name.startswith(".")} <= allowed
