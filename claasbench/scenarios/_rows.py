"""The real files of IH-Challenge: read strictly, row by row, with a reason for each row that is left out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claasbench import draws
from claasbench.errors import ClaasbenchError
from claasbench.scenarios import _syntax
from claasbench.types import Json, content_hash

HUB = "openai/ih-challenge"
REVISION = "056b7d6c07776cce40aef06f046d0c08469778dc"
"""The pinned state of the dataset that is fetched."""

PARTS = ("main train", "main unseen", "dev train", "dev unseen", "warm")
"""What rows are dealt out to; a row goes to one part only."""

_TEXTS = ("attacker_meta_problem", "attacker_problem")
_META = ("task_type", "privileged_level", "attack_level", "attack_placeholder", "grader_code_python")
_RANK = {"system": 2, "developer": 1, "user": 0}
"""The roles of the dataset, and who stands above whom."""


@dataclass
class Rows:
    """The rows of each file by name (file and line), each content once, dealt out by its hash.

    Graders are checked as rows are asked for: most of a file is never played.
    """

    rows: Mapping[str, Sequence[tuple[str, Json]]]
    hashes: Mapping[str, str]
    rejected: Counter[str]
    imports: Counter[str] = field(default_factory=Counter)
    checked: dict[str, str | None] = field(default_factory=dict)
    """Why a row's grader is refused, by the row's name; None: it is not."""

    def part(self, part: str, files: Sequence[str], least: int, most: int = 0) -> list[tuple[str, Json]]:
        """Return rows of a part of `files`, at least and at most so many (0: no more), in an order of their own."""
        dealt = {name: row for file in files for name, row in self.rows[file] if _dealt(row) == part}
        found: list[tuple[str, Json]] = []
        for name in draws.shuffled(sorted(dealt), "rows"):
            if len(found) < (most or least) and self._usable(name, dealt[name]):
                found.append((name, dealt[name]))
        if len(found) < least:
            raise ClaasbenchError(
                f"scenario.files = {list(files)} has {len(found)} usable rows for {part!r}, {least} are asked for"
            )
        return found

    def _usable(self, name: str, row: Json) -> bool:
        if name not in self.checked:
            source = row["metadata"]["grader_code_python"]
            self.checked[name] = _syntax.refused(source)
            self.imports.update(() if self.checked[name] else _syntax.imports(source))
        return self.checked[name] is None

    @property
    def facts(self) -> Json:
        """What was found: file hashes, rows by file, why rows were left out, and what the graders looked at import."""
        refused = Counter(f"grader: {why}" for why in self.checked.values() if why)
        return {
            "files": self.hashes,
            "rows": {file: len(found) for file, found in self.rows.items()},
            "rejected": dict(sorted((self.rejected + refused).items())),
            "graders_checked": len(self.checked),
            "imports": dict(sorted(self.imports.items())),
        }


def load(source: str, files: Sequence[str]) -> Rows:
    """Read `files` of the folder `source`, or of the dataset on the hub where that is "hub"."""
    rows: dict[str, list[tuple[str, Json]]] = {}
    rejected: Counter[str] = Counter()
    hashes, seen = {}, set()
    for file in files:
        data = _path(source, file).read_bytes()
        hashes[file] = hashlib.sha256(data).hexdigest()
        rows[file] = []
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n")):
            row, fault = _row(line)
            content = content_hash(row)
            fault = fault or ("a content that came before" if content in seen else "")
            seen.add(content)
            if fault:
                rejected[fault] += 1
            else:
                rows[file].append((f"{file}:{number}", row))
    return Rows(rows, hashes, rejected)


def _dealt(row: Json) -> str:
    return draws.choice(PARTS, "part", content_hash(row))


def _path(source: str, file: str) -> Path:
    if source != "hub":
        path = Path(source) / f"{file}.jsonl"
        if not path.is_file():
            there = sorted(found.stem for found in Path(source).glob("*.jsonl"))
            names = ", ".join(there) or "nothing"
            raise ClaasbenchError(f"scenario.source = {source!r} has no {file}.jsonl: scenario.files may name {names}")
        return path
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(HUB, f"{file}.jsonl", repo_type="dataset", revision=REVISION))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        why = str(error).splitlines()[0]
        raise ClaasbenchError(f"scenario.source = 'hub': {HUB} cannot be fetched ({why}); a folder works too") from None


def _row(line: bytes) -> tuple[dict[str, Any], str]:
    """Return the row of one line, with the keys we know, and why it cannot be used (empty: it can)."""
    try:
        read = json.loads(line.decode())
    except ValueError:
        return {}, "no JSON in UTF-8"
    if not isinstance(read, dict):
        return {}, "no JSON object"
    given = read.get("metadata")
    meta = given if isinstance(given, dict) else {}
    row = {key: read.get(key) for key in (*_TEXTS, "defender_problem_template")}
    row["metadata"] = {key: meta.get(key) for key in _META}
    return row, _fault(row)


def _fault(row: Json) -> str:
    meta, template = row["metadata"], row["defender_problem_template"]
    if not all(isinstance(meta[key], str) for key in _META):
        return "metadata incomplete"
    if not all(isinstance(row[key], str) for key in _TEXTS) or not isinstance(template, list):
        return "a text is missing"
    if not all(isinstance(said, dict) and set(said) == {"role", "content"} for said in template):
        return "a message is no role and content"
    if not all(said["role"] in _RANK and isinstance(said["content"], str) for said in template):
        return "an unknown role"
    roles = [said["role"] for said in template if meta["attack_placeholder"] in said["content"]]
    times = sum(said["content"].count(meta["attack_placeholder"]) for said in template)
    if not meta["attack_placeholder"] or times != 1:
        return "the placeholder does not stand exactly once"
    if roles != [meta["attack_level"]] or meta["privileged_level"] not in [said["role"] for said in template]:
        return "the roles are not those of its messages"
    if _RANK[meta["privileged_level"]] <= _RANK[meta["attack_level"]]:
        return "the attack does not come from below"
    return ""
