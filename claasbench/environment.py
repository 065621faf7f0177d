"""What this machine is: the entry that each start of a run writes down, and the checks of `claasbench doctor`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from claasbench import __version__, prompts
from claasbench.errors import ClaasbenchError
from claasbench.store import replace_file

PACKAGES = ("torch", "transformers", "textarena", "numpy", "scipy", "matplotlib", "gguf", "accelerate", "typer", "rich")


def packages() -> dict[str, str | None]:
    """Return the installed versions of what results can depend on."""
    found: dict[str, str | None] = {"claasbench": __version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def note(folder: Path, command: Sequence[str]) -> None:
    """Add an entry about this start to the run folder's env.json."""
    path = folder / "env.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    entries.append(
        {
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": list(command),
            "git": _git(),
            "packages": packages(),
            "prompts": prompts.digest(),
            "hardware": hardware(),
        }
    )
    replace_file(path, json.dumps(entries, indent=1).encode() + b"\n")


def hardware() -> dict[str, Any]:
    """Return the machine as far as results and times depend on it."""
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _git() -> dict[str, Any] | None:
    def ask(*words: str) -> str:
        found = subprocess.run(["git", *words], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
        return found.stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", Path(__file__).name)  # else it is the repository of whoever installed us
        return {"sha": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None  # installed from a wheel, or no git here


def checks() -> Iterator[tuple[bool, str, str]]:
    """Yield (good, name, value) for everything a first run needs."""
    yield sys.version_info >= (3, 11), "python", platform.python_version()
    for name, found in packages().items():
        yield found is not None, name, found or "not installed: pip install claasbench"
    import torch

    devices = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    yield True, "device", f"{devices}, {torch.get_num_threads()} threads"
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield free > 1, "disk", f"{free:.1f} GiB free here"
    writable = os.access(Path.cwd(), os.W_OK)
    yield writable, "results", f"can {'' if writable else 'not '}be written here"
    from claasbench import models

    for name in models.names():
        try:
            place = str(models.fetch(name, offline=True))
        except ClaasbenchError:
            place = f"not here yet: claasbench fetch {name}"
        yield True, f"model {name}", place
    yield _game()


def _game() -> tuple[bool, str, str]:
    """Play one oracle game through the real engine."""
    from claasbench import registry
    from claasbench.policies.scripted import Scripted
    from claasbench.rollout import Game, Table, play
    from claasbench.types import LEARNER, Place, Sampling

    scenario = registry.find("scenarios", "frozen-lake")()
    task = scenario.stream(0).splits[0].train[0]
    table = Table(scenario, Sampling(), lambda key: 0)
    (episode,) = play(table, [Game(task, Place("doctor", 0), 0, {LEARNER: Scripted("scripted:oracle")})], 1)
    return episode.score == 1.0, "a game", f"the oracle scores {episode.score} on one FrozenLake board"
