"""What the golden gate runs: three updates of every learner on fixed answers, and a small real run of each.

Record its numbers anew, and say why in the commit: python tests/gates.py
"""

import json
import platform
import tempfile
from pathlib import Path
from unittest import mock

import torch
import transformers

from claasbench import registry
from claasbench.learners.base import Learner
from claasbench.learners.oel import Oel
from claasbench.learners.ppo import Ppo
from claasbench.learners.reinforcepp import Reinforcepp
from claasbench.learners.sdpo import Sdpo
from claasbench.learners.sft import Sft
from claasbench.policies.hf import Hf
from claasbench.types import LEARNER, Experience, Message, Prompt, Sample, Sampling, Slot, Turn
from toys import play as run
from toys import tables

GOLDEN = Path(__file__).parent / "golden"
REPLAY = {"tune": "full", "lr": 1e-3, "b_min": 4, "batch": 4, "updates_per_episode": 1}
ROUND = {"tune": "full", "lr": 1e-3, "games": 2, "accumulations": 2, "steps": 3, "prefixes": 4, "knowledge_tokens": 512}
LEARNERS: dict[str, tuple[type[Learner], dict[str, object]]] = {
    "sft": (Sft, REPLAY),
    "reinforce++": (Reinforcepp, REPLAY),
    "ppo": (Ppo, REPLAY | {"warmup": 1}),
    "sdpo": (Sdpo, REPLAY),
    "oel": (Oel, ROUND),
}
EPISODES = (
    (("[down]", "[right]"), 1.0),
    (("[up]", "[left]"), 0.0),
    (("[right]",), 1.0),
    (("[left]", "[up]"), 0.25),
    (("[down]", "[down]"), 1.0),
    (("[right]", "[right]"), 1.0),
)
"""What is answered, and what the episode earns; the first two or three fill the buffer of a learner that replays."""
NOTE = "- EXPERIENCE ITEM: H cells are holes."
RUN = {
    "scenario__splits": 2,
    "scenario__tasks_per_split": 6,
    "scenario__measured_per_split": 6,
    "policy__threads": 1,
}
RUNS = ("none", "icl", *LEARNERS)
OF_RUN = {"oel": {"learner__games": 3}}


def ready(name):
    """A learner on nano-grid."""
    cls, settings = LEARNERS[name]
    learner = cls(**settings)
    learner.setup({LEARNER: Hf("nano-grid", device="cpu", threads=1, offline=True)}, 0)
    return learner


def sample(policy, prompt, reply):
    """A fixed answer as if the policy had drawn it, each token with log-prob -.5."""
    tokens = (*policy.loaded.tokenizer.encode(reply, add_special_tokens=False), policy.loaded.tokenizer.eos_token_id)
    ids = policy.render(prompt.messages)
    return Sample(reply, ids, tokens, (-0.5,) * len(tokens), sampling=Sampling(1.0))


def turn(policy, at, reply, reward):
    """One fixed turn; an episode's last one has the reward."""
    news = f"You stand at control panel A. [GAME] You moved down to position {at}."
    prompt = Prompt((Message("user", news),), Slot(0, 0), news)
    return Turn(prompt, sample(policy, prompt, reply), reward, "You fell." if reward == 0 else "You moved.")


def experiences(policy):
    """The fixed episodes."""
    found = []
    for number, (replies, earned) in enumerate(EPISODES):
        rewards = [None] * (len(replies) - 1) + [earned]
        turns = [turn(policy, (number, k), *said) for k, said in enumerate(zip(replies, rewards, strict=True))]
        found.append(Experience(f"task-{number}", "kind", "episode", tuple(turns)))
    return found


def updates(learner):
    """The metrics of every step of a learner on the fixed episodes; answers that it asks for are fixed too."""
    if isinstance(learner, Oel):
        learner._answers = lambda policy, asked: [
            sample(policy, request.prompt, NOTE if request.key.task.startswith("extract") else "[down]")
            for request in asked
        ]
    told = [update for each in experiences(learner.policy) for update in learner.observe([each])]
    told += list(learner.end_split("split"))
    return [{key: float(value) for key, value in step.metrics.items()} for step in told if step.name == "step"]


def small(name, folder, **more):
    """Play the small run of a learner; returns the tasks that it learned from."""
    seen = set()
    cls = registry.find("learners", name)
    owner = next(base for base in cls.__mro__ if "observe" in vars(base))
    own = owner.observe

    def observe(learner, episodes):
        seen.update(episode.task for episode in episodes)
        return own(learner, episodes)

    with mock.patch.object(owner, "observe", observe):
        run(tables("frozen-lake", name, "nano-grid", **(RUN | OF_RUN.get(name, {}) | more)), folder)
    return seen


def rows(folder):
    """What is exact of a run: of every row the scores, live and measured, and the hash of the weights."""
    found = {}
    for path in sorted(folder.glob("splits/*/done.json")):
        done = json.loads(path.read_text())
        variants = [cells for measure in done["measures"] for cells in measure["variants"].values()]
        found[done["name"]] = {
            "served": done["served"],
            "live": done["live"] and done["live"]["scores"],
            "measured": [cell["scores"] for cells in variants for cell in cells],
        }
    return found


def here():
    """What decides the last bits of a number."""
    return {
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def main():
    """Write both files."""
    found = {name: updates(ready(name)) for name in LEARNERS}
    (GOLDEN / "updates.json").write_text(json.dumps(found, indent=1) + "\n")
    exact = {}
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            small(name, Path(folder) / "run")
            exact[name] = rows(Path(folder) / "run")
    (GOLDEN / "runs.json").write_text(json.dumps({"platform": here(), "runs": exact}, indent=1) + "\n")


if __name__ == "__main__":
    main()
