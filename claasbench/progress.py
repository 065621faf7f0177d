"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.status import Status

from claasbench.rollout import tally
from claasbench.types import SCORED, Event

PLAIN_EVERY = 10.0
"""Seconds between two plain progress lines."""


class Progress:
    """Shows events; a context manager."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self._say: Callable[[str], None] = lambda text: console.print(text, markup=False, soft_wrap=True)
        self._quiet = quiet
        self._status = Status("starting", console=console) if console.is_terminal and not quiet else None
        self._shown = time.monotonic()
        self._begin("")

    def __enter__(self) -> Progress:
        """Start the live line."""
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *ended: object) -> None:
        """Remove the live line."""
        if self._status:
            self._status.stop()

    def _begin(self, phase: str) -> None:
        self._phase, self._started, self._first = phase, time.monotonic(), 0
        self._scored, self._score, self._tokens, self._failed = 0, 0.0, 0, 0

    def show(self, event: Event) -> None:
        """Take one event."""
        if self._quiet:
            return
        if event.kind == "play":
            self._phase_begins(event)
        elif event.kind == "episode":
            self._episode(event)
        elif event.kind == "resume":
            self._say(f"resuming at {event.where}" + (f" ({event.note})" if event.note else ""))
        elif event.kind == "copy":
            self._begin("")
            self._say(f"{event.where}: the learner is as it was at {event.note}; that row's results are copied")
        elif event.kind == "row":
            measured = f", measured {self._success()}" if "measuring" in self._phase else ""
            failed = f"; {self._failed} episodes FAILED and have no score" if self._failed else ""
            self._say(f"{event.where}: committed{measured}{failed}")

    def _phase_begins(self, event: Event) -> None:
        phase = f"{event.where} {event.note}"
        if phase != self._phase:
            self._begin(phase)
            self._first = event.done
            self._line(f"{phase}: {event.total} episodes", plainly=True)

    def _episode(self, event: Event) -> None:
        episode = event.episode
        assert episode is not None
        self._tokens += tally(episode)["reply_tokens"]
        if episode.status not in SCORED:
            self._failed += 1
        elif episode.score is not None:
            self._scored += 1
            self._score += episode.score
        count = f"episode {event.done}/{event.total}"
        plainly = time.monotonic() - self._shown > PLAIN_EVERY
        self._line(f"{self._phase}: {count}, {self._success()}{self._pace(event)}", plainly)

    def _line(self, text: str, plainly: bool) -> None:
        """Change the live line; without a terminal write a line now and then."""
        if self._status:
            self._status.update(text)
        elif plainly:
            self._shown = time.monotonic()
            self._say(text)

    def _success(self) -> str:
        return f"success {self._score / self._scored:.3f} of {self._scored}" if self._scored else "nothing scored"

    def _pace(self, event: Event) -> str:
        passed = time.monotonic() - self._started
        if passed < 1:
            return ""
        tokens = f", {self._tokens / passed:.0f} tokens/s" if self._tokens else ""
        left = passed / (event.done - self._first) * (event.total - event.done)
        return f"{tokens}, {left:.0f} s left"
