"""The real files of IH-Challenge: read strictly, row by row, with a reason for each row that is left out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_ROLES = ("system", "developer", "user")


@dataclass(frozen=True)
class Rows:
    """The usable rows of each file by name (file, index and content hash), and what was found while reading."""

    rows: Mapping[str, Sequence[tuple[str, Json]]]
    facts: Json

    def part(self, part: str, files: Sequence[str], least: int) -> list[tuple[str, Json]]:
        """Return the rows of a part of `files`, at least so many; which row belongs to which part, a hash decides."""
        found = [
            (name, row) for file in files for name, row in self.rows[file] if draws.choice(PARTS, "part", name) == part
        ]
        if len(found) < least:
            raise ClaasbenchError(
                f"scenario.files = {list(files)} has {len(found)} usable rows for {part!r}, {least} are asked for"
            )
        return draws.shuffled(found, "rows")


def load(source: str, files: Sequence[str]) -> Rows:
    """Read `files` of the folder `source`, or of the dataset on the hub where that is "hub"."""
    rows: dict[str, list[tuple[str, Json]]] = {}
    rejected: Counter[str] = Counter()
    imports: Counter[str] = Counter()
    hashes = {}
    for file in files:
        data = _path(source, file).read_bytes()
        hashes[file] = hashlib.sha256(data).hexdigest()
        rows[file] = []
        for number, text in enumerate(data.decode("utf-8", errors="replace").splitlines()):
            row, fault = _row(text)
            if fault:
                rejected[fault] += 1
            else:
                imports.update(_syntax.imports(row["metadata"]["grader_code_python"]))
                rows[file].append((f"{file}:{number}:{content_hash(row)[:12]}", row))
    facts = {"files": hashes, "rejected": dict(sorted(rejected.items())), "imports": dict(sorted(imports.items()))}
    return Rows(rows, facts | {"rows": {file: len(found) for file, found in rows.items()}})


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


def _row(text: str) -> tuple[dict[str, Any], str]:
    """Return the row of one line and why it cannot be used (empty: it can)."""
    try:
        row = json.loads(text)
    except ValueError:
        return {}, "no JSON"
    return (row, _fault(row)) if isinstance(row, dict) else ({}, "no JSON object")


def _fault(row: dict[str, Any]) -> str:
    meta, template = row.get("metadata"), row.get("defender_problem_template")
    if not isinstance(meta, dict) or not all(isinstance(meta.get(key), str) for key in _META):
        return "metadata incomplete"
    if not all(isinstance(row.get(key), str) for key in _TEXTS) or not isinstance(template, list):
        return "a text is missing"
    if not all(isinstance(said, dict) and set(said) == {"role", "content"} for said in template):
        return "a message is no role and content"
    if not all(said["role"] in _ROLES and isinstance(said["content"], str) for said in template):
        return "an unknown role"
    roles = [said["role"] for said in template if meta["attack_placeholder"] in said["content"]]
    times = sum(said["content"].count(meta["attack_placeholder"]) for said in template)
    if not meta["attack_placeholder"] or times != 1:
        return "the placeholder does not stand exactly once"
    if roles != [meta["attack_level"]] or meta["privileged_level"] not in [said["role"] for said in template]:
        return "the roles are not those of its messages"
    refused = _syntax.refused(meta["grader_code_python"])
    return f"grader: {refused}" if refused else ""
