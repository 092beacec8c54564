"""What a puzzle's kernel promises besides its numbers, and how each is counted.

    def check_flip_blocks(flip_blocks):
        for blocks in 4, 1:
            x = values[: blocks * 64]
            judge(flip_blocks, Case(
                blocks, 64, dict(x=x, y=unset(len(x))), x.reshape(-1, 64)[:, ::-1],
                each=dict(x=1, y=1), shared=1, waits=1))

A case is one launch.  `judge` runs it, compares `y`, and raises `CaseFailed` with the
first promise that does not hold: which, by whom, how many came and how many are enough.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..run.device.grid_memory import SECTOR, WARP
from ..trace.base.errors import MinijitError
from .cases import CaseFailed, labelled
from .kernels import Ran, launch


@dataclass(frozen=True)
class Case:
    """One launch of a kernel, what it computes, and what it may use for that.

    Attributes:
      given: {name of a parameter: array or number}; `y` is what the kernel stores.
      wanted: what `y` becomes; near: how far from it, relative, it may be.
      each: {array: how many of its elements one thread uses at most}, so that the work
        is divided; what a thread loads twice is one element.
      loads: {array: how many elements all threads load at most}.
      sectors: {array: in how many pieces of 32 bytes it is moved at most}.
      shared: how many numbers one thread loads from shared memory at most, some of
        them stored by others; what it loads again before the next barrier is one
        number.  0: there is no shared memory.  None: any.
      waits: how many barriers a thread comes to at most.  None: any.
      exchanges: how many a thread makes.  None: any.
      banks: whether warps may wait for a bank of shared memory.
    """

    blocks: int
    threads: int
    given: dict[str, Any]
    wanted: np.ndarray
    near: float = 0
    each: dict[str, int] = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)
    sectors: dict[str, int] = field(default_factory=dict)
    shared: int | None = None
    waits: int | None = None
    exchanges: int | None = None
    banks: bool = True


def judge(kernel: Callable[..., Any], case: Case) -> None:
    """Raise CaseFailed with what is wrong with a kernel in one case, if anything is."""
    name = getattr(kernel, "__name__", "the kernel")
    called = f"{name}: {counted(case.blocks, 'block')} of {case.threads} threads"
    for key, value in case.given.items():
        called += f", {key} = {value}" if np.ndim(value) == 0 else ""
    try:
        told = complaint(kernel, case)
    except MinijitError as error:
        what = f"{type(error).__name__}: {error}"
        raise CaseFailed([called, *labelled("raised", what.split("\n"))]) from None
    if told:
        raise CaseFailed([called, *(f"  {line}" for line in told.split("\n"))])


def complaint(kernel: Callable[..., Any], case: Case) -> str:
    """What is wrong with a kernel in one case; "" if nothing is."""
    names = list(inspect.signature(getattr(kernel, "py_func", kernel)).parameters)
    if names != list(case.given):
        return f"the kernel is given {', '.join(case.given)}: keep these parameters"
    given = {k: v.copy() if k == "y" else v for k, v in case.given.items()}
    ran = launch(kernel, case.blocks, case.threads, *given.values())
    told = (line for promise in promises for line in promise(ran, case, given["y"]))
    return next(told, "")


def counted(many: int, what: str) -> str:
    return f"{many:,} {what}{'s' * (many != 1)}"


def who(lane: Any, case: Case) -> str:
    """What messages call a thread that is counted through the grid."""
    block, thread = divmod(int(lane), case.threads)
    return f"thread {thread} of block {block}"


def first_uses(ran: Ran, name: str, what: str) -> Any:
    """The stores of an array; of its loads only the first of each thread and element.

    What a thread has loaded, a compiler keeps in a register.
    """
    used = ran.uses(name, what=what)
    if what == "loads":
        _, first = np.unique(used[["thread", "place"]], return_index=True)
        used = used[np.sort(first)]
    return used


def most_often(keys: Iterable[Any]) -> tuple[Any, int]:
    """The key that is there most often, and how often; 0 times if there is none."""
    return max(Counter(keys).items(), key=lambda item: item[1], default=(None, 0))


# ---- promises: each says how it is broken, or nothing


def numbers(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    wanted = case.wanted.ravel().astype(y.dtype)
    wrong = np.flatnonzero(~np.isclose(y, wanted, case.near, case.near / 10))
    if len(wrong):
        i = wrong[0]
        stored = ran.uses("y", what="stores")
        by = stored.thread[stored.place == i]
        came = "no thread has stored it"
        if len(by):
            came = f"{who(by[-1], case)} has stored {y[i]!s}"
        yield (
            f"{len(wrong)} of {len(y)} numbers {'is' if len(wrong) == 1 else 'are'} "
            f"wrong, the first is y[{i}]:\n"
            f"{came}, expected {wanted[i]!s}"
        )


def means(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    for access in ran.of("y", what="loads"):
        does = f"{who(access.threads[0], case)} loads y[{access.places[0]}]"
        yield f"{does}: keep in a variable what is not a result yet"


def divided(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    for name, most in case.each.items():
        what, again = "loads", "what several threads need, one of them loads for all"
        if name == "y":
            what, again = "stores", "keep in a variable what is not a result yet"
        lanes = first_uses(ran, name, what).thread
        of_each = np.bincount(lanes, minlength=case.blocks * case.threads)
        lane, many = np.argmax(of_each), int(np.max(of_each))
        if many > most:
            done = f"{counted(many, 'number')} of {name}"
            done = f"into y {counted(many, 'time')}" if name == "y" else done
            # Where nobody has less than its share, something is done more than once.
            divide = "divide the work among all threads"
            yield (
                f"{who(lane, case)} {what} {done}, where {most} would do:\n"
                f"{again if np.min(of_each) >= most else divide}"
            )


def loaded(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    for name, most in case.loads.items():
        many = len(first_uses(ran, name, "loads"))
        if many > most:
            yield (
                f"all threads together load {counted(many, 'number')} of {name}, where "
                f"{most} would do:\nwhat several threads need, one loads into shared "
                "memory"
            )


def neighbours(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    for name, most in case.sectors.items():
        what = "store" if name == "y" else "load"
        used = first_uses(ran, name, what + "s")
        each = SECTOR // case.given[name].itemsize
        warps: dict[Any, set[int]] = {}  # {step, warp: the places that it uses at once}
        for thread, place, _, _, step in used.tolist():
            warps.setdefault((step, thread // WARP), set()).add(place)
        many = sum(len({i // each for i in places}) for places in warps.values())
        if many > most:
            close = all(max(i) - min(i) < len(i) for i in warps.values())
            enough = close and sum(-(-len(i) // each) for i in warps.values()) <= most
            advice = f"neighbouring threads should {what} neighbours at once"
            if enough:
                advice = "a warp should begin where a sector begins, at a multiple of 8"
            yield (
                f"to {what} {name} takes {counted(many, 'sector')}, where {most} would "
                f"do:\n{advice}"
            )


def shared(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    if case.shared is None:
        return
    if case.shared == 0 and ran.of(shared=True):
        yield "do it without shared memory"
    used = ran.of(shared=True, what="loads")
    if case.shared and not any(access.taken.any() for access in used):
        yield "no thread takes from shared memory what another one has stored"
    loads = {
        (thread, a.name, place, waited)
        for a in used
        for thread, place, waited in zip(a.threads, a.places, a.waited, strict=True)
    }
    lane, many = most_often(sorted(thread for thread, *_ in loads))
    if many > case.shared:
        yield (
            f"{who(lane, case)} loads {counted(many, 'number')} from shared memory,\n"
            f"where {case.shared} would do: divide the work among all threads"
        )


def waits(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    _, many = most_often(ran.uses(what="barriers").thread.tolist())
    if case.waits is not None and many > case.waits:
        yield f"all wait at {counted(many, 'barrier')}, where {case.waits} would do"


def exchanges(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    _, many = most_often(ran.uses(what="exchanges").thread.tolist())
    if case.exchanges not in (None, many):
        yield (
            f"each thread makes {counted(many, 'exchange')}, expected {case.exchanges}"
        )


def banks(ran: Ran, case: Case, y: np.ndarray) -> Iterator[str]:
    for name, count in ran.counts.items():
        if not case.banks and count.conflicts:
            yield (
                f"warps wait {counted(count.conflicts, 'time')} for a bank of {name}: "
                "threads use numbers\nthat are a multiple of 32 apart"
            )


promises = (
    numbers, means, divided, loaded, neighbours, shared, waits, exchanges, banks
)  # fmt: skip
