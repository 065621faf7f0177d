"""The program of the grader process: one fork per job, whose child can compute and exit, and nothing else.

_graders.py starts it as a file in a fresh interpreter; it imports the standard library alone. On file descriptor 0, a
socket, it reads jobs (8 bytes of length, then JSON) and answers each with the wait status of the child (4 bytes). The
verdict is the child's exit code: no descriptor leads out of the child, so a grader can break no framing, and forging
an exit code gains it nothing over returning True. What stops a hostile grader is the kernel filter, set before the
first line of it is compiled; the short lists of builtins and modules only make honest mistakes visible.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from types import ModuleType

ENTRY = "grade_output_correct"

HELD, BROKEN, NOT_BOOLEAN, NO_FILTER, RAISED = 64, 65, 66, 67, 68
"""Exit codes of a child: two verdicts, another result, no kernel filter; from RAISED on, one for each of ERRORS."""

ERRORS: tuple[type[BaseException], ...] = (
    *(MemoryError, RecursionError, ImportError, NameError, AttributeError, IndexError, KeyError, UnicodeError),
    *(ValueError, TypeError, ZeroDivisionError, OverflowError, SyntaxError, AssertionError, Exception, BaseException),
)
"""The exceptions that are told apart, a subclass before its bases."""

_BUILTINS = """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float
    format frozenset hasattr hash hex id int isinstance issubclass iter len list map max min next object oct ord pow
    print property range repr reversed round set slice sorted staticmethod str sum tuple type zip
    Ellipsis NotImplemented ArithmeticError AssertionError AttributeError BaseException EOFError Exception ImportError
    IndexError KeyError LookupError MemoryError NameError NotImplementedError OSError OverflowError RecursionError
    RuntimeError StopIteration TypeError UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError
    ZeroDivisionError
"""
BUILTINS = frozenset(_BUILTINS.split())
"""The builtins a grader may name."""

MODULES = {
    "__future__": "annotations",
    "base64": "",
    "collections": "",
    "collections.abc": "",
    "csv": "",
    "dataclasses": "asdict astuple dataclass field replace",
    "decimal": "",
    "fractions": "",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "io": "StringIO",
    "itertools": "",
    "json": "",
    "json.decoder": "",
    "math": "",
    "operator": "",
    "re": "",
    "statistics": "",
    "string": "",
    "textwrap": "",
    "typing": "Any Callable Counter DefaultDict Dict FrozenSet Iterable Iterator List Literal Mapping Match NamedTuple "
    "Optional Pattern Sequence Set Tuple Union cast",
    "unicodedata": "",
}
"""The modules a grader may import and the names it sees there; none given: all the public ones but HIDDEN."""

HIDDEN = {"attrgetter", "methodcaller", "Formatter", "update_wrapper", "wraps", "get_type_hints"}
"""Public names of those modules that read any attribute by its name, or evaluate a text."""

LATE = ("heapq", "warnings")
"""What those modules import within a function: a child could not load it any more."""

CODECS = ("ascii", "cp1252", "latin-1", "unicode_escape", "utf-8-sig", "utf-16", "utf-32")
"""Encodings loaded in advance: Python reads a file for each at its first use."""

CPU_SECONDS, MEMORY, LIFE_SECONDS = 2, 512 << 20, 10
"""A child's limits; its life ends on the wall clock too, for the case that nobody is left to kill it."""

LIMITS = (
    (resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1)),  # the soft limit has a signal of its own
    (resource.RLIMIT_AS, (MEMORY, MEMORY)),
    (resource.RLIMIT_CORE, (0, 0)),
    (resource.RLIMIT_FSIZE, (0, 0)),
    (resource.RLIMIT_NOFILE, (0, 0)),
    (resource.RLIMIT_NPROC, (0, 0)),
)

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
ALLOW, KILL = 0x7FFF0000, 0x80000000  # SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS
X86_64 = 0xC000003E  # AUDIT_ARCH_X86_64
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # BPF: load a word, jump if ==, jump if &, return
NUMBER_AT, ARCH_AT, THIRD_ARGUMENT_AT = 0, 4, 32  # offsets in struct seccomp_data
MMAP, MPROTECT, PROT_EXEC = 9, 10, 4
CALLS = {"write": 1, "munmap": 11, "brk": 12, "rt_sigreturn": 15, "mremap": 25, "madvise": 28, "futex": 202}
CALLS |= {"clock_gettime": 228, "exit_group": 231}
"""What a computing CPython asks of the kernel on x86-64, beside memory that is not executable; write: to /dev/null."""


def kernel_filter() -> bytes:
    """Return the seccomp program: kill the process at every system call that is not allowed."""
    lines = [(LOAD, 0, 0, ARCH_AT), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER_AT)]
    for number in CALLS.values():
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    lines += [(EQUAL, 1, 0, MMAP), (EQUAL, 0, 2, MPROTECT)]  # both have the protection third
    lines += [(LOAD, 0, 0, THIRD_ARGUMENT_AT), (ANY_BIT, 0, 1, PROT_EXEC), (RETURN, 0, 0, KILL), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def lock() -> Callable[[], bool]:
    """Return what makes the calling process unable to do anything but compute and exit; it says whether it did."""
    lines = ctypes.create_string_buffer(kernel_filter())
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_ulong)

    def locked() -> bool:
        os.dup2(1, 0)  # /dev/null: the socket was the only way out
        for kind, limits in LIMITS:
            resource.setrlimit(kind, limits)
        signal.setitimer(signal.ITIMER_REAL, LIFE_SECONDS)
        program = struct.pack("HP", len(lines) // 8, ctypes.addressof(lines))
        return not (prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0) or prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0))

    return locked


def facade(name: str) -> ModuleType:
    """Return a module with only those names of module `name` that a grader may use."""
    real = importlib.import_module(name)
    names = MODULES[name].split() or getattr(real, "__all__", None) or vars(real)
    shown = ModuleType(name)
    for each in names:
        value = getattr(real, each)
        if not each.startswith("_") and each not in HIDDEN and not isinstance(value, ModuleType):
            setattr(shown, each, value)
    return shown


def vocabulary() -> dict[str, object]:
    """Return the builtins of a grader, with an import that serves what is loaded already."""
    facades = {name: facade(name) for name in MODULES}
    for dotted in (name for name in facades if "." in name):
        parent, _, child = dotted.partition(".")
        setattr(facades[parent], child, facades[dotted])

    def serve(name: str, names: object = None, scope: object = None, wanted: object = (), level: int = 0) -> ModuleType:
        if level or name not in facades:
            raise ImportError(name)
        return facades[name if wanted else name.partition(".")[0]]

    def kind(value: object, /) -> type:
        return type(value)  # a call of the real one with three arguments makes classes

    words = {name: getattr(builtins, name) for name in BUILTINS}
    return words | {"__build_class__": builtins.__build_class__, "__import__": serve, "type": kind}


def verdict(job: Mapping[str, str], words: Mapping[str, object]) -> int:
    """Return the exit code of one grade: only True and False themselves are verdicts."""
    names: dict[str, object] = {"__builtins__": words, "__name__": "builtins"}  # as plain exec has it
    exec(compile(job["source"], "grader", "exec", dont_inherit=True), names)
    grade = names[ENTRY]
    held = grade(job["attack"], job["reply"]) if callable(grade) else None
    return HELD if held is True else BROKEN if held is False else NOT_BOOLEAN


def fault(kind: type[BaseException] | None) -> int:
    """Return the exit code that names an exception."""
    return RAISED + next(place for place, error in enumerate(ERRORS) if issubclass(kind or Exception, error))


def main() -> None:
    """Serve jobs until the other end of the socket is gone."""
    words, locked = vocabulary(), lock()
    for name in LATE:
        importlib.import_module(name)
    for name in CODECS:
        "".encode(name)
    stream = sys.stdin.buffer
    gc.freeze()  # a child's collector leaves the pages it shares with us alone
    while length := stream.read(8):
        job = stream.read(int.from_bytes(length, "big"))
        child = os.fork()
        if not child:
            code = 0
            try:
                code = verdict(json.loads(job), words) if locked() else NO_FILTER
            finally:  # whatever was raised, nothing of the grader may run in this loop
                os._exit(code or fault(sys.exc_info()[0]))
        os.write(0, struct.pack("i", os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
