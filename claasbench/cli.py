"""The command line: the only place that prints. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from claasbench import __version__
from claasbench.errors import ClaasbenchError, invalid, unknown

if TYPE_CHECKING:
    from claasbench.config import Table
    from claasbench.launch._parts import Parts
    from claasbench.launch.study import Planned
    from claasbench.runner import Runner

DEFAULT_MODEL = "nano"
DONE, FAILED, INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(soft_wrap=False)
err = Console(stderr=True, highlight=False)

Out = Annotated[Path | None, typer.Option("--out", help="Run folder; by default below results/.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, as trial.seed=1.")]


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    try:
        app()
    except ClaasbenchError as error:
        err.print(f"claasbench: {error}", markup=False, soft_wrap=True)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has left: say nothing more
        sys.exit(FAILED)
    except OSError as error:
        if not error.filename:
            raise
        err.print(f"claasbench: {error.strerror}: {str(error.filename)!r}", markup=False, soft_wrap=True)
        sys.exit(FAILED)


def say(text: str) -> None:
    """Tell people something on standard error."""
    err.print(text, markup=False, soft_wrap=True)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Continual learning of language-model agents: one stream, one matrix, one report."""


@app.command()
def run(
    what: Annotated[str, typer.Argument(metavar="SCENARIO|FILE.toml", help="A scenario's name or a study file.")],
    method: Annotated[str | None, typer.Option("--method", help="The learner.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="A name, folder or hub id.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Reaches sampling and learning.")] = None,
    order: Annotated[int | None, typer.Option("--order", help="Permutes what the scenario permits.")] = None,
    out_: Out = None,
    set_: Sets = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last commit.")] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Remove the run in this folder first.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and first prompt only.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Make no network call.")] = False,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, ...")] = None,
    allow_graders: Annotated[bool, typer.Option("--allow-graders", help="Run code out of data files.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Play one stream with one method and measure every checkpoint."""
    from claasbench.launch._parts import assemble, configure

    if resume and clean:
        raise invalid("--resume", True, "one of --resume and --clean, not both")
    flags: dict[str, Any] = {"learner.name": method, "policy.model": model, "policy.device": device}
    flags |= {"trial.seed": seed, "trial.order": order}
    tables, folder, trials = _tables(what, flags, set_ or [])
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read by the hub's client when it is imported
    folder = out_ or folder
    plan = configure(tables)
    if not dry_run:
        _check_folder(folder, plan.config.tables(), resume=resume, clean=clean)
    plan.scenario.allow_graders(allow_graders)
    parts = assemble(plan, offline)
    if dry_run:
        _plan(parts, folder, trials)
        return
    sys.exit(_run(parts, folder, resume=resume, clean=clean, quiet=quiet))


def _tables(what: str, flags: dict[str, Any], sets: list[str]) -> tuple[Table, Path, int]:
    """Return the tables of a run, its default folder, and how many trials its method has in its study."""
    from claasbench import config
    from claasbench.launch import study
    from claasbench.launch._parts import check_tables

    given = {name: value for name, value in flags.items() if value is not None}
    if what.endswith(".toml"):
        plan = study.runs(Path(what))
        first = _picked(plan, {name: value for name, value in given.items() if name.startswith("trial.")})
        tables, axes, name = first.tables, list(first.values), study.name(Path(what))
        trials = study.trials(plan, first)
    else:
        tables, axes, name, trials = {"scenario": {"name": what}}, [], Path(what).stem, 1
    check_tables(tables)
    for setting, value in given.items():
        config.put(tables, setting, value)
    for assignment in sets:
        config.assign(tables, assignment)
    check_tables(tables)
    if "model" not in tables.setdefault("policy", {}):
        tables["policy"]["model"] = DEFAULT_MODEL
        say(f"model: {DEFAULT_MODEL} (the default, a toy that checks the machine; a real one: --model ID or FOLDER)")
    if "name" not in tables.setdefault("learner", {}):
        tables["learner"]["name"] = "none"
        say("method: none (the default; `claasbench list learners` shows the others)")
    folder = Path("results") / name / study.folder(tables, {axis: config.get(tables, axis) for axis in axes})
    return tables, folder, trials


def _picked(plan: list[Planned], wanted: dict[str, Any]) -> Planned:
    """Return the first run of a study whose axes have the wanted order and seed."""
    axes = {name: value for name, value in wanted.items() if name in plan[0].values}
    for planned in plan:
        if all(planned.values[name] == value for name, value in axes.items()):
            return planned
    asked = ", ".join(f"{name}={value}" for name, value in axes.items())
    there = dict.fromkeys(", ".join(f"{name}={planned.values[name]}" for name in axes) for planned in plan)
    raise invalid("--order, --seed", asked, f"a run of this study: {'; '.join(there)}")


def _check_folder(folder: Path, tables: Table, *, resume: bool, clean: bool) -> None:
    """Refuse a folder that cannot take the run before anything is loaded."""
    import json

    from claasbench import config, store

    there = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "is not a folder" if not there.is_dir() else "cannot be written to"
        raise ClaasbenchError(f"--out {str(folder)!r}: {str(there)!r} {why}")
    if not store.used(folder) or resume or clean:
        return
    file = folder / "config.json"
    written = json.loads(file.read_text(encoding="utf-8")) if (folder / "digest.txt").exists() else tables
    keys = config.differing({key: value for key, value in written.items() if key != "resolved"}, tables)
    if keys:
        raise ClaasbenchError(f"folder {str(folder)!r} holds a run of other settings ({'; '.join(keys)}): choose --out")
    raise ClaasbenchError(f"folder {str(folder)!r} is used: go on with --resume, or start over with --clean")


def _run(parts: Parts, folder: Path, *, resume: bool, clean: bool, quiet: bool) -> int:
    from claasbench import config, environment, store
    from claasbench.progress import Progress
    from claasbench.runner import Runner

    tables, digest = parts.config.tables(), config.digest(parts.config.tables(), parts.resolved)
    written = {**tables, "resolved": parts.resolved}
    if clean:
        store.clean(folder)
    held = store.resume(folder, written, digest, config.differing) if resume else store.new(folder, written, digest)
    say(f"run folder: {folder}")
    try:
        if held.cursor.get("phase") == "done":
            say("nothing to do: this run is done")
            return DONE
        environment.note(folder, sys.argv)
        runner = Runner(parts.config, parts.resolved, parts.scenario, parts.learner, parts.seats, held, parts.opponents)
        ended = "stop"
        with _stop_on_interrupt(runner), Progress(err, quiet) as progress:
            for event in runner.events():
                progress.show(event)
                ended = event.kind
    except KeyboardInterrupt:
        say(f"stopped at once; the unit under way is lost. Go on with: {_again(folder)}")
        return INTERRUPTED
    finally:
        held.close()
    if ended == "stop":
        (folder / "stop").unlink(missing_ok=True)
        say(f"stopped between two units. Go on with: {_again(folder)}")
        return INTERRUPTED
    say(f"done: {folder}    next: claasbench report {folder}")
    return DONE


def _again(folder: Path) -> str:
    import shlex

    words = [word for word in sys.argv[1:] if word not in ("--resume", "--clean")]
    if not any(word == "--out" or word.startswith("--out=") for word in words):
        words += ["--out", str(folder)]
    return shlex.join(["claasbench", *words, "--resume"])


@contextmanager
def _stop_on_interrupt(runner: Runner) -> Iterator[None]:
    """The first Ctrl-C asks for a stop between two units, the second stops at once."""

    def handle(number: int, frame: object) -> None:
        if runner.stop:
            raise KeyboardInterrupt
        runner.stop = True
        say("stopping after this unit (once more: stop at once)")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _plan(parts: Parts, folder: Path, trials: int) -> None:
    """Print the resolved configuration, the size of the run and the first prompt exactly as rendered."""
    import json

    from claasbench import streams

    stream = parts.scenario.stream(parts.config.trial.order)
    parts.learner.setup(parts.seats, parts.config.trial.seed)
    measures = streams.chosen(stream, parts.config.measure.names)
    out.print_json(json.dumps({**parts.config.tables(), "resolved": parts.resolved}))
    rows = len(stream.splits) + 1 if parts.config.measure.rows == "all" else 2
    cells = [tasks for measure in measures for _, tasks in streams.cells(measure, stream)]
    times = parts.config.measure.attempts * len(parts.learner.variants())
    measured = [task for tasks in cells for task in tasks]
    trained = [task for split in stream.splits for task in split.train]
    episodes = len(measured) * times
    print(f"\nfolder: {folder}")
    print(f"train: {len(stream.splits)} splits, {len(trained)} episodes: {', '.join(s.name for s in stream.splits)}")
    print(f"measure: at most {rows} rows x {len(cells)} cells, {episodes} episodes a row, {rows * episodes} in all")
    last = sum(len(tasks) for _, tasks in streams.cells(measures[0], stream)) * parts.config.measure.attempts
    print(_power(last, trials))
    lengths = [[parts.scenario.length(task) for task in tasks] for tasks in (trained, measured)]
    if None not in lengths[0] + lengths[1]:
        live, row = (sum(filter(None, group)) for group in lengths)
        print(f"prompts: at most {live} in training, {row * times} a row, {live + row * times * rows} in all")
    first = next(parts.scenario.play(stream.splits[0].train[0]))
    loaded = parts.learner.policy.loaded
    print(f"\nfirst prompt ({parts.learner.policy.count(first.messages)} tokens):")
    if loaded:
        print(loaded.tokenizer.decode(parts.learner.policy.render(first.messages)))
    else:
        print("\n".join(f"<{message.role}>\n{message.content}" for message in first.messages))


def _power(episodes: int, trials: int) -> str:
    """Tell which difference in `final` a comparison of two such methods would find with a chance of 80 %.

    The variance of a difference is twice that of one method: 1/4 an episode at most, and that of training.
    """
    from claasbench.stats import detectable

    if trials < 2:
        return "power: one trial compares checkpoints, not methods; a study of 9 trials carries 12 contrasts"
    found = [100 * detectable((2 * (0.25 / episodes + sd**2)) ** 0.5, trials) for sd in (0.0, 0.1)]
    return (
        f"power: {trials} trials of {episodes} episodes in a row find a difference in final of {found[0]:.1f} points "
        f"4 times in 5 if only sampling varies, of {found[1]:.1f} if trainings differ by 10 points"
    )


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="A study file.")],
    out_: Annotated[Path, typer.Option("--out", help="Folder of the study.")],
    slots: Annotated[int, typer.Option("--slots", help="Runs side by side.")] = 1,
    launcher: Annotated[str, typer.Option("--launcher", help="local.")] = "local",
    offline: Annotated[bool, typer.Option("--offline", help="Make no network call.")] = False,
    allow_graders: Annotated[bool, typer.Option("--allow-graders", help="Run code out of data files.")] = False,
) -> None:
    """Play every run of a study file; done ones are left alone."""
    from claasbench.launch import local

    if launcher != "local":
        raise unknown("--launcher", launcher, ["local"])
    flags = [*(["--offline"] if offline else []), *(["--allow-graders"] if allow_graders else [])]
    failed = local.sweep(file, out_, slots, say, flags)
    if failed:
        say(f"{len(failed)} runs did not finish: {', '.join(failed)}")
        sys.exit(FAILED)
    say(f"done: {out_}    next: claasbench report {out_}")


@app.command()
def status(folder: Annotated[Path, typer.Argument(metavar="DIR")]) -> None:
    """Show where each run below a folder stands."""
    from rich.table import Table as RichTable

    from claasbench.launch import local

    rows = local.status(folder)
    if not rows:
        raise ClaasbenchError(f"folder {str(folder)!r} holds no run")
    table = RichTable(box=None)
    for title in ("run", "at", "rows done", "committed", "running"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    out.print(table)


@app.command()
def stop(folder: Annotated[Path, typer.Argument(metavar="DIR")]) -> None:
    """Ask every running run below a folder to stop between two units."""
    from claasbench.launch import local

    asked = local.ask_to_stop(folder)
    say(f"asked {len(asked)} running runs to stop" + "".join(f"\n  {path}" for path in asked))


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...")],
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    md: Annotated[bool, typer.Option("--md", help="Markdown on standard output.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Cells as CSV on standard output.")] = False,
    csv_metrics: Annotated[bool, typer.Option("--csv-metrics", help="Metrics as CSV on standard output.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="One page with all of it.")] = None,
    out_: Annotated[Path | None, typer.Option("--out", help="Where figures and report.md go.")] = None,
) -> None:
    """Print and draw matrices, curves and metrics of one or many runs."""
    from claasbench.report import load, numbers, tables, terminal, text

    formats = [json_, md, csv, csv_metrics, html is not None]
    if sum(formats) > 1:
        raise invalid("--json --md --csv --csv-metrics --html", "several", "one format at a time")
    study = numbers.study(load.load(folders))
    if html:
        from claasbench.report import html as page
        from claasbench.store import replace_file

        replace_file(html, page.page(study).encode())
        say(f"wrote {html}")
        return
    chapters = tables.chapters(study)
    spelled = {json_: text.as_json, csv: text.csv, csv_metrics: text.csv_metrics}
    if md or True in spelled:
        print(text.markdown(chapters) if md else spelled[True](study), end="")
        return
    for part in terminal.render(chapters):
        out.print(part)
    from claasbench.report import figures

    target = out_ or folders[0] / "report"
    target.mkdir(parents=True, exist_ok=True)
    drawn = figures.draw(study, target)
    (target / "report.md").write_text(text.markdown(chapters), encoding="utf-8")
    say(f"wrote report.md and {len(drawn)} figures to {target}")


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="REFERENCE DIR...")],
    allow: Annotated[list[str] | None, typer.Option("--allow", metavar="KEY", help="A difference meant.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    md: Annotated[bool, typer.Option("--md", help="Markdown on standard output.")] = False,
) -> None:
    """Pair each method with a reference, episode by episode, and test what it gains."""
    from claasbench.report import compare as comparing
    from claasbench.report import contrasts, terminal, text

    if json_ and md:
        raise invalid("--json --md", "both", "one format at a time")
    found = contrasts.compare(folders, allow or [])
    chapter = comparing.chapter(found)
    if json_:
        print(comparing.as_json(found), end="")
    elif md:
        print(text.markdown([chapter], "claasbench compare"), end="")
    else:
        for part in terminal.render([chapter]):
            out.print(part)


@app.command()
def check(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...")],
    against: Annotated[Path, typer.Option("--against", metavar="TABLE", help="A file of published numbers.")],
    out_: Annotated[Path | None, typer.Option("--out", help="Where REPRODUCIBILITY.md goes.")] = None,
) -> None:
    """Set published numbers against ours: exit 0 if all are met, 1 if one is missed, 3 otherwise."""
    from claasbench.report import check as checking
    from claasbench.report import load, published, terminal, text
    from claasbench.store import replace_file

    reference = published.read(against)
    runs = load.load(folders)
    found = checking.check(reference, runs)
    chapter = checking.chapter(reference, found, runs)
    for part in terminal.render([chapter]):
        out.print(part)
    file = (out_ or folders[0] / "report") / "REPRODUCIBILITY.md"
    replace_file(file, text.markdown([chapter], "Reproducibility").encode())
    say(f"wrote {file}")
    sys.exit(checking.exit_code(found))


@app.command("list")
def list_(kind: Annotated[str | None, typer.Argument(metavar="[KIND]")] = None) -> None:
    """List the plug-ins and bundled models."""
    from claasbench import models, registry

    kinds = {**{name: registry.names(name) for name in registry.BASES}, "models": models.names()}
    if kind is not None and kind not in kinds:
        raise unknown("kind", kind, kinds)
    for name in [kind] if kind else kinds:
        print(f"{name}: {' '.join(kinds[name])}")


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="NAME|DIR", help="A plug-in's name or a run folder.")],
    row: Annotated[str, typer.Option("--row", help="Row of a run: init, 00-<split>, ...")] = "init",
    task: Annotated[str | None, typer.Option("--task", help="A task's id; by default the row's first episode.")] = None,
) -> None:
    """Show a plug-in's settings, or an episode of a run turn by turn."""
    from claasbench import show as showing

    print(showing.transcript(Path(what), row, task) if (Path(what) / "splits").is_dir() else showing.settings(what))


@app.command()
def doctor() -> None:
    """Check this machine: packages, devices, models, one real game."""
    from claasbench import environment

    ok = True
    for good, name, value in environment.checks():
        ok &= good
        print(f"{'ok  ' if good else 'FAIL'} {name}: {value}")
    sys.exit(DONE if ok else FAILED)


@app.command()
def init(
    kind: Annotated[str, typer.Argument(metavar="scenario|learner")],
    name: Annotated[str, typer.Argument(metavar="NAME")],
) -> None:
    """Write a working one-file plug-in and its test into this folder."""
    from claasbench import scaffold

    written = scaffold.write(kind, name, Path())
    say("wrote " + " and ".join(map(str, written)))


@app.command()
def fetch(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    offline: Annotated[bool, typer.Option("--offline", help="Make no network call.")] = False,
) -> None:
    """Fetch a model once, so that runs can be offline."""
    from claasbench import models

    print(models.fetch(model, offline=offline))


if __name__ == "__main__":
    main()
