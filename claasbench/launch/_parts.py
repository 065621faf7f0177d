"""How tables become the actors of a run: names to classes, defaults filled in, and what they resolved to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from claasbench import config, models, prompts, registry
from claasbench.config import RunConfig, Table
from claasbench.errors import ClaasbenchError, invalid, unknown
from claasbench.learners.base import Learner
from claasbench.policies.base import Policy
from claasbench.runner import chosen
from claasbench.scenarios.base import Scenario
from claasbench.types import LEARNER, Sampling, Stream, content_hash

TABLES = ("scenario", "learner", "policy", "seats", "sampling", "stream", "measure", "checkpoint", "trial")
SAMPLING = ("train", "measure")


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a runner needs but the folder."""

    config: RunConfig
    resolved: Table
    scenario: Scenario
    learner: Learner
    seats: dict[str, Policy]


def assemble(raw: Mapping[str, Any], offline: bool = False) -> Parts:
    """Return the actors that `raw` tables name; whatever is unknown or out of range is refused in one line.

    `offline` says how models are loaded, not which: it is handed to the policies and kept out of the configuration.
    """
    for name, value in raw.items():
        if name not in TABLES:
            raise unknown("table", name, TABLES)
        if not isinstance(value, dict):
            raise invalid(name, value, "a table")
    scenario_table, scenario_class = _plugin("scenarios", raw.get("scenario", {}), "scenario")
    learner_table, learner_class = _plugin("learners", raw.get("learner", {}), "learner")
    scenario: Scenario = scenario_class(**_settings(scenario_table))
    learner: Learner = learner_class(**_settings(learner_table))
    tables = {LEARNER: raw.get("policy", {}), **raw.get("seats", {})}
    for seat in tables:
        if seat not in scenario.seats:
            raise unknown("seats", seat, [name for name in scenario.seats if name != LEARNER])
    checked = {seat: _policy_table(table, _where(seat)) for seat, table in tables.items()}
    made = RunConfig(
        scenario=scenario_table,
        learner=learner_table,
        policy=checked[LEARNER][0],
        seats={seat: table for seat, (table, _) in checked.items() if seat != LEARNER},
        sampling=_sampling(raw.get("sampling", {}), scenario.sampling()),
        stream=_stream(raw.get("stream", {}), scenario),
        measure=config.build(config.MeasureTable, raw.get("measure", {}), "measure"),
        checkpoint=config.build(config.CheckpointTable, raw.get("checkpoint", {}), "checkpoint"),
        trial=config.build(config.TrialTable, raw.get("trial", {}), "trial"),
    )
    _check(made)
    stream = scenario.stream(made.trial.order)  # what is wrong with it shows before a model is loaded
    chosen(stream, made.measure.names)
    seats = {seat: _policy(table, policy, offline) for seat, (table, policy) in checked.items()}
    for seat in scenario.seats:
        seats.setdefault(seat, seats[LEARNER].at("base"))
    if missing := learner.needs - seats[LEARNER].offers:
        raise ClaasbenchError(
            f"learner.name = {learner_table['name']!r} needs {', '.join(sorted(missing))}, "
            f"which policy.model = {made.policy['model']!r} does not offer"
        )
    return Parts(made, _resolved(made, stream, scenario, seats), scenario, learner, seats)


def _where(seat: str) -> str:
    return "policy" if seat == LEARNER else f"seats.{seat}"


def _plugin(kind: str, table: Mapping[str, Any], where: str) -> tuple[Table, type[Any]]:
    """Return the complete table of a plug-in and its class."""
    if "name" not in table:
        raise ClaasbenchError(f"{where}.name is missing: allowed: {', '.join(registry.names(kind))}")
    found = registry.find(kind, str(table["name"]))
    own = {key: value for key, value in table.items() if key != "name"}
    return {"name": table["name"], **config.complete(found, own, where)}, found


def _policy_table(table: Mapping[str, Any], where: str) -> tuple[Table, type[Any]]:
    """Return the complete table of a policy and its class: `engine:name` picks the engine, a bare name means hf."""
    if not isinstance(table.get("model"), str):
        raise invalid(f"{where}.model", table.get("model"), "a model's name, folder or engine:name")
    prefix, colon, _ = table["model"].partition(":")
    engine = table.get("engine", prefix if colon and prefix in registry.names("policies") else "hf")
    found = registry.find("policies", engine)
    own = {key: value for key, value in table.items() if key != "engine"}
    if "offline" in own:
        raise invalid(f"{where}.offline", own["offline"], "the flag --offline, as it changes no result")
    complete = config.complete(found, own, where)
    return {"engine": engine, **{key: value for key, value in complete.items() if key != "offline"}}, found


def _policy(table: Table, cls: type[Any], offline: bool) -> Policy:
    more = {"offline": offline} if any(entry.name == "offline" for entry in fields(cls)) else {}
    made: Policy = cls(**_settings(table), **more)
    return made


def _settings(table: Table) -> Table:
    return {key: value for key, value in table.items() if key not in ("name", "engine")}


def _sampling(tables: Mapping[str, Any], default: Sampling) -> dict[str, Sampling]:
    for name in tables:
        if name not in SAMPLING:
            raise unknown("sampling", name, SAMPLING)
    base = {name: getattr(default, name) for name in Sampling.__slots__}
    made = {name: config.build(Sampling, {**base, **tables.get(name, {})}, f"sampling.{name}") for name in SAMPLING}
    for name, sampling in made.items():
        where = f"sampling.{name}"
        if sampling.temperature < 0:
            raise invalid(f"{where}.temperature", sampling.temperature, "0 (greedy) or more")
        if not 0 < sampling.top_p <= 1:
            raise invalid(f"{where}.top_p", sampling.top_p, "above 0, at most 1")
        if sampling.top_k < 0:
            raise invalid(f"{where}.top_k", sampling.top_k, "0 (off) or more")
        if sampling.max_tokens < 1:
            raise invalid(f"{where}.max_tokens", sampling.max_tokens, "at least 1")
    return made


def _stream(table: Mapping[str, Any], scenario: Scenario) -> config.StreamTable:
    made = config.build(config.StreamTable, table, "stream")
    return made if made.batch else config.StreamTable(batch=scenario.batch)


def _check(made: RunConfig) -> None:
    sizes = {
        "stream.batch": made.stream.batch,
        "measure.width": made.measure.width,
        "measure.attempts": made.measure.attempts,
        "checkpoint.every": made.checkpoint.every,
    }
    for name, value in sizes.items():
        if value < 1:
            raise invalid(name, value, "at least 1")
    for name, value in (("trial.order", made.trial.order), ("trial.seed", made.trial.seed)):
        if value < 0:
            raise invalid(name, value, "0 or more")


def _resolved(made: RunConfig, stream: Stream, scenario: Scenario, seats: Mapping[str, Policy]) -> Table:
    """Return what the names stand for on this machine; part of the digest."""
    tasks = [
        [[split.name, split.kind, [task.id for task in split.train]] for split in stream.splits],
        [[measure.name, [[task.id for task in cell] for cell in measure.cells]] for measure in stream.measures],
    ]
    engine, model = made.policy["engine"], made.policy["model"]
    return {
        "stream": content_hash(tasks),
        "model": seats[LEARNER].served,
        "policies": {seat: dict(policy.identity()) for seat, policy in sorted(seats.items())},
        "prompts": prompts.digest(),
        "toy": engine == "scripted" or models.toy(model),
        "facts": dict(scenario.facts()),
    }
