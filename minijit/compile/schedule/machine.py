"""The machine that loops are priced for: a dozen numbers.

    Machine.host()              # this one: it says how wide its vectors and caches are
    Machine("x86-64-v3")        # any of that level
    Machine.book()              # the one of stored outputs: the same on every CPU

Nothing is measured: what takes how long was, once, on a core of 2021 with AVX2 (Zen 3).
A choice between loops depends on ratios, and these are much alike on other cores; a
clock on a busy machine would say something else each time.
"""

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from ...trace.base.config import config

config.define(
    "machine", "host",
    "what loops are priced for: host, book (the same on every CPU), or a level",
    allowed=("host", "book", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
)  # fmt: skip


@dataclass(frozen=True)
class Cache:
    """A cache, or the table of pages that a core knows.

    Attributes:
      size, ways, line: bytes, lines in a set, bytes of a line.
      stream, jump: ns for the next line in order from behind it; for any other one.
      crowd: for one of lines that meet in a few sets; 0 where addresses are mixed.
    """

    size: int
    ways: int
    line: int
    stream: float
    jump: float
    crowd: float

    @property
    def sets(self):
        """How many sets there are; 0 if a line may be in any of them."""
        return self.size // self.ways // self.line if self.crowd else 0


# Parts of a loop for each core: some finish early, for a core may be busy with others.
PARTS = 4
# level: bytes of a vector register, and how many of them there are.
levels = {"x86-64-v2": (16, 16), "x86-64-v3": (32, 16), "x86-64-v4": (64, 32)}
CACHES = (
    Cache(1 << 15, 8, 64, 0.5, 0.4, 3.0),
    Cache(1 << 19, 8, 64, 0.25, 0.3, 3.5),
    Cache(1 << 23, 16, 4096, 4.0, 5.5, 0.0),
    Cache(1 << 25, 16, 64, 2.4, 5.4, 0.0),
)


@dataclass(frozen=True)
class Machine:
    """Cores, their vectors and their caches; times are nanoseconds.

    Attributes:
      level: of instructions, which says how many bytes a vector register has, and how
        many of them there are.
      op: an instruction among many that do not wait for each other.
      wait: until the next one may use its result.
      slow: a division or square root, as so many instructions.
      call: a function of the C library.
      loop, step: to begin and end a loop; a step of it, beside its instructions.
      branch: a branch that was not foreseen.
      kernel: to launch one.
      wake: to have other cores help.  What takes less is not worth a choice, either.
      take: a line of memory from another core, which wrote to it just now.
      cores: how many there are.
      caches: nearest first, pages among them.  The last one, all cores share.
    """

    level: str = "x86-64-v3"
    op: float = 0.137
    wait: float = 0.93
    slow: float = 4.0
    call: float = 15.0
    loop: float = 0.6
    step: float = 0.3
    branch: float = 5.0
    kernel: float = 300.0
    wake: float = 30_000.0
    take: float = 6.0
    cores: int = 4
    caches: tuple = CACHES

    @property
    def vector(self):
        return levels[self.level][0]

    @property
    def registers(self):
        return levels[self.level][1]

    def one_vector(self, extent, size):
        """Whether all steps of a loop are one vector, of a register or less.

        Args:
          size: bytes of the widest number of a step.
        """
        return extent in (2, 4, 8) and extent * size <= self.vector

    @classmethod
    def book(cls):
        return cls()

    @classmethod
    @functools.cache
    def host(cls):
        return cls(host_level[0](), caches=host_caches())

    @classmethod
    def in_force(cls):
        """The one that the flag `machine` names."""
        name = config.read("machine")
        if name == "host":
            return replace(cls.host(), cores=max(host_cores[0](), 1))
        return cls.book() if name == "book" else cls(name)


# Function: the level of x86-64 that code is made for.  What makes code replaces it.
host_level = [lambda: "x86-64-v3"]
# Function: how many cores a kernel may use.  What makes threads replaces it.
host_cores = [lambda: 1]


def host_caches(root=Path("/sys/devices/system/cpu/cpu0/cache")):
    """The caches that the system tells of; those of `CACHES` if it tells of none."""
    sizes = {}
    for folder in root.glob("index*"):
        try:
            kind, level, size, ways = (
                (folder / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "size", "ways_of_associativity")
            )
            units = {"K": 1 << 10, "M": 1 << 20}
            told = int(size.rstrip("KM")) * units.get(size[-1], 1), int(ways)
        except (OSError, ValueError):
            continue  # A container may hide some of it.
        if kind != "Instruction" and all(told):
            sizes[int(level)] = dict(zip(("size", "ways"), told, strict=True))
    first, second, pages, last = CACHES
    first, second, last = (
        replace(cache, **sizes.get(level, {}))
        for level, cache in ((1, first), (2, second), (3, last))
    )
    return first, second, pages, last
