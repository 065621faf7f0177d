"""Graders of a data file, each run in a process that can only compute: what goes in, what comes out, and the clock."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from claasbench.scenarios import _sandbox
from claasbench.scenarios._syntax import refused

COMMAND = [sys.executable, "-P", "-s", "-S", "-W", "ignore", str(Path(__file__).with_name("_sandbox.py"))]
ENVIRONMENT = {"PYTHONHASHSEED": "0"}  # nothing of ours; a grader that walks through a set has one verdict
PROBE = f"def {_sandbox.ENTRY}(attack, reply):\n    return attack == reply\n"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader said; `held` is None and `reason` says why unless the status is ok."""

    status: Literal["ok", "rejected", "timeout", "error"]
    held: bool | None
    reason: str


class Graders:
    """Runs graders one after another, each for at most `wall` seconds; for one thread, closed at exit at the latest."""

    def __init__(self, wall: float = 5.0) -> None:
        self.wall = wall
        self._channel: socket.socket | None = None
        self._end: weakref.finalize[..., Graders] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the grader process and whatever it started; the next grade starts another one."""
        if self._end:
            self._end()
        self._channel = self._end = None

    def grade(self, source: str, attack: str, reply: str) -> Verdict:
        """Return what the grader `source` says about `reply` to `attack`; True: the higher rule held."""
        if reason := refused(source):
            return Verdict("rejected", None, reason)
        job = json.dumps({"source": source, "attack": attack, "reply": reply}).encode()
        frame = len(job).to_bytes(8, "big") + job
        for _ in range(2):  # a process that died while it was idle is replaced once
            try:
                return _read(self._ask(frame))
            except TimeoutError:
                self.close()
                return Verdict("timeout", None, f"no verdict within {self.wall:g} s")
            except OSError:
                self.close()
        return Verdict("error", None, "the grader process ends without a verdict")

    def _ask(self, frame: bytes) -> int:
        channel = self._channel or self._start()
        self._channel = None  # whoever is interrupted here leaves no answer behind for the next question
        channel.sendall(frame)
        answer = channel.recv(4, socket.MSG_WAITALL)
        if len(answer) < 4:
            raise ConnectionError
        self._channel = channel
        return int(struct.unpack("i", answer)[0])

    def _start(self) -> socket.socket:
        self.close()
        ours, theirs = socket.socketpair()
        ours.settimeout(self.wall)
        with theirs, tempfile.TemporaryDirectory() as folder:  # removed at once: a folder where nothing can be made
            process = subprocess.Popen(
                COMMAND,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                cwd=folder,
                start_new_session=True,
            )
        self._end = weakref.finalize(self, _end, ours, process)
        return ours


def supported() -> str | None:
    """Return why graders cannot be run on this machine; None: a first one ran behind the kernel filter."""
    here = f"{platform.system()} {platform.machine()}"
    if here != "Linux x86_64":
        return f"graders run on Linux x86_64 only, this is {here}"
    if sys.implementation.name != "cpython" or sys.version_info < (3, 11):
        return f"graders run on CPython 3.11 or newer only, this is {sys.implementation.name} {sys.version.split()[0]}"
    with Graders() as graders:
        verdict = graders.grade(PROBE, "", "")
    return None if verdict.held else f"graders cannot be run here: {verdict.reason}"


def _read(status: int) -> Verdict:
    code = os.waitstatus_to_exitcode(status)
    if code in (_sandbox.HELD, _sandbox.BROKEN):
        return Verdict("ok", code == _sandbox.HELD, "")
    clocks = {-signal.SIGXCPU: f"{_sandbox.CPU_SECONDS} s of CPU time", -signal.SIGALRM: f"{_sandbox.LIFE_SECONDS} s"}
    if code in clocks:
        return Verdict("timeout", None, f"no verdict within {clocks[code]}")
    errors = {_sandbox.RAISED + place: f"raised {error.__name__}" for place, error in enumerate(_sandbox.ERRORS)}
    errors |= {
        _sandbox.NOT_BOOLEAN: "returned something other than True or False",
        _sandbox.NO_FILTER: "the kernel filter cannot be set",
        -signal.SIGSYS: "asked the kernel for something that is not allowed",
    }
    return Verdict("error", None, errors.get(code, f"ended by signal {-code}" if code < 0 else f"exit code {code}"))


def _end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    channel.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
