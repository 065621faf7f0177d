"""How tables become the actors of a run: names to classes, defaults filled in, and what they resolved to."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any

from claasbench import __version__, config, models, prompts, registry
from claasbench.attackers.base import Attacker
from claasbench.config import RunConfig, Table
from claasbench.errors import ClaasbenchError, invalid, unknown
from claasbench.learners._placebo import Placebo
from claasbench.learners.base import Learner
from claasbench.opponents import Opponents
from claasbench.policies.base import Policy
from claasbench.scenarios._retention import Retained
from claasbench.streams import check_stream, chosen
from claasbench.types import LEARNER, Stream, Task, content_hash

TABLES = ("scenario", "attacker", "learner", "policy", "seats", "sampling", "stream", "measure", "checkpoint", "trial")
ASIDE = ("placebo", "tuned")
"""Settings of every learner that are not its own."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked configuration with its scenario, stream, learner and policy classes; no model is loaded yet."""

    config: RunConfig
    scenario: Retained
    stream: Stream
    learner: Learner
    attackers: tuple[Attacker, Attacker] | None
    policies: dict[str, type[Any]]


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a runner needs but the folder."""

    config: RunConfig
    resolved: Table
    scenario: Retained
    learner: Learner
    opponents: Opponents | None
    seats: dict[str, Policy]


def configure(raw: Mapping[str, Any]) -> Plan:
    """Return what `raw` tables mean; whatever is unknown or out of range is refused in one line."""
    check_tables(raw)
    scenario_table, scenario_class = _plugin("scenarios", raw.get("scenario", {}), "scenario")
    scenario = Retained(scenario_class(**_settings(scenario_table)))
    policies = _policies(raw, scenario, _learner_seats(raw.get("learner", {})))
    learner_table, learner_class = _learner(raw.get("learner", {}), scenario_table["name"], policies[LEARNER][0])
    attacker_table, attackers = _attackers(raw.get("attacker", {}), scenario)
    made = RunConfig(
        scenario=scenario_table,
        attacker=attacker_table,
        learner=learner_table,
        policy=policies[LEARNER][0],
        seats={seat: table for seat, (table, _) in policies.items() if seat != LEARNER},
        sampling=config.sampling(raw.get("sampling", {}), scenario.sampling()),
        stream=_stream(raw.get("stream", {}), scenario),
        measure=config.build(config.MeasureTable, raw.get("measure", {}), "measure"),
        checkpoint=config.build(config.CheckpointTable, raw.get("checkpoint", {}), "checkpoint"),
        trial=config.build(config.TrialTable, raw.get("trial", {}), "trial"),
    )
    _check(made)
    stream = scenario.stream(made.trial.order)
    check_stream(stream)
    chosen(stream, made.measure.names)
    if attackers:
        attackers[0].check(stream)
    learner: Learner = learner_class(**_settings(learner_table))
    learner = Placebo(learner) if learner_table.get("placebo") else learner
    _check_state(learner_class, learner_table["name"])
    learner.check(made.sampling["train"])
    return Plan(made, scenario, stream, learner, attackers, {seat: cls for seat, (_, cls) in policies.items()})


def check_tables(raw: Mapping[str, Any]) -> None:
    """Refuse unknown tables and values where tables belong."""
    for name, value in raw.items():
        if name not in TABLES:
            raise unknown("table", name, TABLES)
        inner = value.items() if isinstance(value, dict) and name in ("seats", "sampling") else ()
        for key, table in ((name, value), *((f"{name}.{key}", table) for key, table in inner)):
            if not isinstance(table, dict):
                raise invalid(key, table, "a table of settings, as in policy.model = ...")


def assemble(plan: Plan, offline: bool = False) -> Parts:
    """Return the actors of a plan, models loaded.

    `offline` says how models are loaded, not which: it is handed to the policies and kept out of the configuration.
    """
    made = plan.config
    tables = {LEARNER: made.policy, **made.seats}
    seats = {seat: _policy(tables[seat], cls, offline) for seat, cls in plan.policies.items()}
    for seat in plan.scenario.seats:
        seats.setdefault(seat, seats[LEARNER].at("base"))
    if missing := plan.learner.needs - seats[LEARNER].offers:
        raise ClaasbenchError(
            f"learner.name = {made.learner['name']!r} needs {', '.join(sorted(missing))}, "
            f"which policy.model = {made.policy['model']!r} does not offer"
        )
    resolved = _resolved(plan, seats)
    return Parts(made, resolved, plan.scenario, plan.learner, _opponents(plan, resolved), seats)


def _learner_seats(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the seats that a learner knows beside the scenario's."""
    name = table.get("name")
    found: tuple[str, ...] = registry.find("learners", name).seats if isinstance(name, str) else ()
    return found


def _policies(raw: Mapping[str, Any], scenario: Retained, more: tuple[str, ...]) -> dict[str, tuple[Table, type[Any]]]:
    """Return the complete table and the class of every seat that has one, the learner's first."""
    others = [name for name in (*scenario.seats, *more) if name != LEARNER]
    for seat in raw.get("seats", {}):
        if seat not in others:
            raise unknown("seats", seat, others)
    tables = {LEARNER: raw.get("policy", {}), **raw.get("seats", {})}
    return {seat: _policy_table(_named(table, _where(seat), scenario), _where(seat)) for seat, table in tables.items()}


def _named(table: Mapping[str, Any], where: str, scenario: Retained) -> Mapping[str, Any]:
    """Return the table with the model that `nano` stands for in this scenario."""
    if table.get("model") != models.NANO:
        return table
    if not scenario.nano:
        known = type(scenario.inner).__name__
        raise ClaasbenchError(
            f"{where}.model = {models.NANO!r}: no toy model was trained on the text of {known}; "
            f"name one with --model, such as smollm2 or a folder"
        )
    return {**table, "model": scenario.nano}


def _check_state(cls: type[Any], name: str) -> None:
    """Refuse a learner that learns and is not saved: its rows would pass for equal, and a resume would lose it."""
    learns = cls.observe is not Learner.observe or cls.end_split is not Learner.end_split
    saves = cls.save is not Learner.save and cls.load is not Learner.load
    if learns and not saves:
        raise ClaasbenchError(f"learner.name = {name!r} learns but does not define both save and load")


def _where(seat: str) -> str:
    return "policy" if seat == LEARNER else f"seats.{seat}"


def _plugin(kind: str, table: Mapping[str, Any], where: str) -> tuple[Table, type[Any]]:
    """Return the complete table of a plug-in and its class."""
    name = table.get("name")
    if not isinstance(name, str):
        raise invalid(f"{where}.name", name, f"one of {', '.join(registry.names(kind))}, or ./file.py")
    found = registry.find(kind, name)
    own = {key: value for key, value in table.items() if key != "name"}
    return {"name": registry.canonical(kind, name), **config.complete(found, own, where)}, found


def _learner(table: Mapping[str, Any], scenario: str, policy: Table) -> tuple[Table, type[Any]]:
    """Return the complete table of the learner and its class; what is not set comes from its preset.

    `placebo` and `tuned`, the dev study that chose the settings, are part of the table where they are set; a preset's
    `tuned` holds where all settings are the preset's, on the scenario and model that the study tuned for.
    """
    placebo = config.convert(bool, table.get("placebo", False), "learner.placebo")
    tuned = config.convert(str, table.get("tuned", ""), "learner.tuned")
    own = {key: value for key, value in table.items() if key not in ASIDE}
    made, found = _plugin("learners", own, "learner")
    if found.presets:
        chosen = own.get("preset") or _preset(found, policy["model"])
        if chosen not in found.presets:
            raise unknown("learner.preset", chosen, found.presets)
        preset = dict(found.presets[chosen])
        study, *where = preset.pop("tuned", ("",))
        plain = {"name": own["name"], "preset": chosen, **preset}
        made, found = _plugin("learners", {**plain, **own, "preset": chosen}, "learner")
        if not tuned and where == [scenario, policy["model"]] and made == _plugin("learners", plain, "learner")[0]:
            tuned = study
    return made | ({"placebo": True} if placebo else {}) | ({"tuned": tuned} if tuned else {}), found


def _preset(learner: type[Learner], model: str) -> str:
    """Return the preset of a model: its own, else that of the nano family, else the paper's."""
    if model in learner.presets:
        return model
    return models.NANO if models.toy(model) else "paper"


def _attackers(table: Mapping[str, Any], scenario: Retained) -> tuple[Table, tuple[Attacker, Attacker] | None]:
    """Return the complete table of the attacker, and two of them: the stream's and the measured one."""
    if not scenario.attacker:
        if table:
            known = type(scenario.inner).__name__
            raise invalid("attacker", dict(table), f"no such table: nobody attacks in the scenario {known}")
        return {}, None
    made, found = _plugin("attackers", {"name": scenario.attacker, **table}, "attacker")
    live: Attacker = found(**_settings(made))
    return made, (live, deepcopy(live))


def _opponents(plan: Plan, resolved: Table) -> Opponents | None:
    """Return both attackers, with the place of the warmed state: named by all that it depends on."""
    if not plan.attackers:
        return None
    tables = plan.config.tables()
    own = {name: tables[name] for name in ("scenario", "attacker", "policy")}
    own["sampling"] = tables["sampling"]["measure"]
    own["tasks"] = [_identity(task) for task in plan.scenario.warmup()]
    own["resolved"] = {key: resolved[key] for key in ("claasbench", "prompts", "attacker", "facts")}
    own["plugins"] = {table: source for table, source in resolved["plugins"].items() if table != "learner"}
    own["seats"] = {seat: resolved["policies"][seat] for seat in plan.scenario.seats}
    return Opponents(*plan.attackers, models.cache() / "attackers" / content_hash(own)[:32])


def _policy_table(table: Mapping[str, Any], where: str) -> tuple[Table, type[Any]]:
    """Return the complete table of a policy and its class: `engine:name` picks the engine, a bare name means hf."""
    model, engine = table.get("model"), table.get("engine")
    if not isinstance(model, str) or not model:
        raise invalid(f"{where}.model", model, "a model's name, folder or engine:name")
    prefix, colon, rest = model.partition(":")
    named = bool(colon) and prefix in registry.names("policies")
    engine = engine if engine is not None else prefix if named else "hf"
    if not isinstance(engine, str):
        raise invalid(f"{where}.engine", engine, f"one of {', '.join(registry.names('policies'))}")
    found = registry.find("policies", engine)
    own = {key: value for key, value in table.items() if key != "engine"}
    if "offline" in own:
        raise invalid(f"{where}.offline", own["offline"], "the flag --offline, as it changes no result")
    own["model"] = rest if named and engine == "hf" else model
    complete = config.complete(found, own, where)
    kept = {key: value for key, value in complete.items() if key != "offline"}
    return {"engine": registry.canonical("policies", engine), **kept}, found


def _policy(table: Table, cls: type[Any], offline: bool) -> Policy:
    more = {"offline": offline} if any(entry.name == "offline" for entry in fields(cls)) else {}
    made: Policy = cls(**_settings(table), **more)
    return made


def _settings(table: Table) -> Table:
    return {key: value for key, value in table.items() if key not in ("name", "engine", *ASIDE)}


def _stream(table: Mapping[str, Any], scenario: Retained) -> config.StreamTable:
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


def _resolved(plan: Plan, seats: Mapping[str, Policy]) -> Table:
    """Return what the names stand for on this machine; part of the digest."""
    stream, made = plan.stream, plan.config
    tasks = [
        [[split.name, split.kind, [_identity(task) for task in split.train]] for split in stream.splits],
        [[measure.name, [[_identity(task) for task in cell] for cell in measure.cells]] for measure in stream.measures],
    ]
    learner = plan.learner.inner if isinstance(plan.learner, Placebo) else plan.learner
    classes = {"scenario": type(plan.scenario.inner), "learner": type(learner)}
    classes |= {"attacker": type(plan.attackers[0])} if plan.attackers else {}
    classes |= {_where(seat): cls for seat, cls in plan.policies.items()}
    sources = {table: registry.source(cls) for table, cls in classes.items()}
    return {
        "claasbench": __version__,
        "stream": content_hash(tasks),
        "model": seats[LEARNER].served,
        "policies": {seat: dict(policy.identity()) for seat, policy in sorted(seats.items())},
        "plugins": {table: source for table, source in sources.items() if source},
        "prompts": prompts.digest(),
        "sees": plan.learner.sees,
        **({"attacker": dict(plan.attackers[0].identity())} if plan.attackers else {}),
        "toy": made.policy["engine"] == "scripted" or models.toy(made.policy["model"]),
        "facts": dict(plan.scenario.facts()),
    }


def _identity(task: Task) -> list[str | int]:
    return [task.id, task.kind, task.seed]
