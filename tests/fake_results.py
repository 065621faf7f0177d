"""Writes run folders with known scores, as a finished run leaves them: done.json alone."""

import json
from pathlib import Path

from claasbench.types import content_hash

COUNTS = {
    "episodes": 0, "turns": 0, "invalid": 0, "no_action": 0, "cut": 0, "overflow": 0,
    "prompt_tokens": 0, "prefilled": 0, "reply_tokens": 0, "retries": 0, "failed": 0,
}  # fmt: skip


def ones(successes, n, failed=0):
    """Scores of n episodes of which the first succeed and the last have no score."""
    return [1.0] * successes + [0.0] * (n - successes - failed) + [None] * failed


def cell(split, scores, attempts=1, bounds=(0.0, 1.0, 1.0), **counts):
    """A cell of `attempts` scores a task; two turns and ten reply tokens an episode."""
    n = len(scores)
    plain = {"episodes": n, "turns": 2 * n, "prompt_tokens": 100 * n, "prefilled": 50 * n, "reply_tokens": 10 * n}
    return {
        "split": split,
        "tasks": [f"{split}-{k // attempts}" for k in range(n)],
        "attempts": [k % attempts for k in range(n)],
        "scores": scores,
        "statuses": ["infra_error" if score is None else "ok" for score in scores],
        "counts": {**COUNTS, **plain, "failed": scores.count(None), **counts},
        **dict(zip(("chance", "ceiling", "one_policy"), bounds, strict=True)),
    }


def config(method="icl", model="smollm2", order=0, seed=0, **tables):
    """A resolved configuration; every further table is merged into the one of its name."""
    base = {
        "scenario": {"name": "frozen-lake", "protocol": "shift"},
        "learner": {"name": method},
        "policy": {"model": model, "engine": "hf"},
        "sampling": {"train": {"max_tokens": 64}, "measure": {"max_tokens": 64}},
        "stream": {"batch": 16},
        "measure": {"attempts": 1},
        "checkpoint": {"every": 1},
        "trial": {"order": order, "seed": seed},
    }
    return {name: {**base.get(name, {}), **tables.get(name, {})} for name in base | tables}


def table(splits, index, configuration, **changes):
    """The done.json of one row before anything was measured."""
    name = "init" if index < 0 else f"{index:02d}-{splits[index]}"
    return {
        "schema": 1,
        "metric_version": 1,
        "claasbench": "0.1.0",
        "row": index,
        "name": name,
        "copied": None,
        "state": "0" * 8,
        "served": "v0-abc",
        "digest": content_hash(configuration),
        "config": configuration,
        "resolved": {
            "stream": f"order {configuration['trial']['order']}",
            "model": content_hash(configuration["policy"]["model"]),
            "prompts": "p" * 64,
            "toy": False,
            "sees": "reward",
            "facts": {"textarena": "0.7.4", "seen share": 0.25},
        },
        "splits": [{"name": split, "kind": f"frozen-lake {split}", "train": 4} for split in splits],
        "returns": False,
        "live": None,
        "measures": [],
        "updates": {"count": max(index, 0), "last": {"loss": 1.0}},
        "seconds": {"play": 0.0 if index < 0 else 8.0, "learn": 0.0 if index < 0 else 2.0, "measure": 4.0, "save": 0.5},
        **changes,
    }


def measure(splits, row, name="held-out", **details):
    """One measure of one row: a list of scores for each split, or one list for all of them."""
    shared = len(row) == 1 and len(splits) > 1
    names = [""] if shared else splits
    cells = [cell(split, scores, **details) for split, scores in zip(names, row, strict=True)]
    return {"name": name, "shared": shared, "variants": {"learner": cells}}


def write(folder: Path, splits, rows, live=(), configuration=None, **details):
    """Write a run: rows[0] is the untrained one, None leaves a row out; `details` go into every measured cell."""
    configuration = configuration or config()
    for index, row in enumerate(rows, start=-1):
        if row is not None:
            done = table(splits, index, configuration)
            done["measures"] = [measure(splits, row, **details)]
            if index >= 0 and live:
                done["live"] = cell(splits[index], live[index])
            save(folder, done)
    return folder


def save(folder: Path, done):
    """Write one done.json."""
    path = folder / "splits" / done["name"].replace("/", "_") / "done.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(done))
    return path


def episodes(folder: Path, row, found):
    """Write the recorded episodes of a row: pairs of what an episode's row says and its turns."""
    place = folder / "splits" / row
    plain = {"attempt": 0, "split": "4x4", "measure": "held-out", "variant": "learner", "score": 1.0, "status": "ok"}
    turn = {"seat": "learner", "news": "", "text": "", "finish": "stop", "served": "", "reward": 0.0, "feedback": ""}
    heads, turns = [], []
    for head, told in found:
        heads.append({**plain, **head})
        key = {name: heads[-1][name] for name in ("task", "attempt", "measure", "variant") if name in heads[-1]}
        turns += [{**key, "turn": number, **turn, **said} for number, said in enumerate(told)]
    for name, lines in (("episodes", heads), ("turns", turns)):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def edit(folder: Path, change, rows="*"):
    """Change the done.json of some rows in place."""
    for path in sorted(folder.glob(f"splits/{rows}/done.json")):
        done = json.loads(path.read_text())
        change(done)
        path.write_text(json.dumps(done))
