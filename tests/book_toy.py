"""A toy repository with a book, three chapters and a supplement, of a package `toy`."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from minijit.book import author, magics, run
from minijit.book.project import Book, read_book
from minijit.book.stage import Stage

REPO = Path(__file__).resolve().parents[1]

TOML = """\
[book]
package = "toy"
chapters = "chapters"
rooms = ["trace", "transform"]
whole_tests = ["tests/test_whole.py"]

[[chapter]]
id = 1
title = "Values"
file = "01_values.ipynb"
builds = ["toy/trace/core.py", "toy/numpy.py", "toy/__init__.py"]

[[chapter]]
id = "1s"
title = "More values"
file = "01s_more.ipynb"
builds = ["toy/trace/more.py", "toy/numpy.py"]

[[chapter]]
id = 2
title = "Trees"
file = "02_trees.ipynb"
builds = ["toy/trace/pytree.py", "toy/__init__.py"]

[[chapter]]
id = 3
title = "Linearize"
file = "03_linearize.ipynb"
builds = ["toy/transform/lin.py", "toy/__init__.py"]
"""

CORE = '''\
"""Values and primitives."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass


# A primitive is known by its identity.
class Primitive:
    """One operation."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


sin_p = Primitive("sin")
cos_p = Primitive("cos")
mul_p = Primitive("mul")

# The table of evaluation rules: each chapter adds rows.
eval_rules: dict = {}


def unary(p):
    def op(x):
        return bind(p, x)

    return op


sin, cos = unary(sin_p), unary(cos_p)


def bind(p, *xs):
    return eval_rules[p](*xs)


def mul(x, y):
    return bind(mul_p, x, y)


eval_rules |= {sin_p: math.sin, cos_p: math.cos}
eval_rules |= {mul_p: lambda x, y: x * y}


class Base:
    def describe(self):
        return "base"


@dataclass(frozen=True)
class Array(Base):
    """An immutable value."""

    value: float

    def describe(self):
        return "array over " + super().describe()

    def __mul__(self, other):
        return Array(mul(self.value, other.value))

    __rmul__ = __mul__

    @property
    def size(self):
        return LIMIT


LIMIT = 1


@functools.lru_cache
def table_size(p):
    return len(p.name) * scale()


def scale():
    return 1


def array(x):
    return Array(float(x))
'''

MORE = '''\
"""More primitives."""

from .core import LIMIT, Primitive, bind, eval_rules, unary

neg_p = Primitive("neg")
neg = unary(neg_p)
eval_rules |= {neg_p: lambda x: -x}


def twice(x):
    return bind(neg_p, x) * -2 * LIMIT
'''

NUMPY = '''\
"""Public names."""

from .trace.core import cos as cos, sin as sin

# chapter 1s
from .trace.more import neg as neg


def negative(x):
    """Another name for neg."""
    return neg(x)
'''

INIT = '''\
"""A toy."""

from .trace.core import Array, array

# chapter 2
from .trace.pytree import flatten

# chapter 3
from .transform.lin import clear_caches, jvp, remember
'''

PYTREE = '''\
"""Trees."""

from .core import Array

registry = {}


def register(cls):
    registry[cls] = cls.parts
    return cls


@register
class Pair:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def parts(self):
        return [self.a, self.b]


registry[list] = lambda xs: list(xs)


def flatten(tree):
    rule = registry.get(type(tree))
    if rule is None:
        return [tree.value if isinstance(tree, Array) else tree]
    return [leaf for part in rule(tree) for leaf in flatten(part)]
'''

LIN = '''\
"""One rule per primitive: primal outside, tangent inside the lambda."""

from ..trace.core import bind, cos, mul_p, sin, sin_p

lin_rules = {}


def sin_lin(x):
    c = cos(x)
    return sin(x), lambda t: t * c


lin_rules |= {
    sin_p: sin_lin,
    mul_p: lambda x, y: (bind(mul_p, x, y), lambda tx, ty: tx * y + x * ty),
}


def jvp(p, primals, tangents):
    y, f = lin_rules[p](*primals)
    return y, f(*tangents)


memory = {}


def remember(p):
    """A function that keeps what it once computed, as a jitted one keeps its code."""

    def known(x):
        if (p, x) not in memory:
            memory[p, x] = jvp(p, (x,), (1.0,))
        return memory[p, x]

    return known


def clear_caches():
    memory.clear()
'''

CHAPTER_1 = """\
# Values

The goal.

```python
%load_ext minijit.book
%chapter 1
```

## Not yet

```python raises-exception
import toy.trace.pytree
```

```python raises-exception
import toy.trace.core
```

## Primitives

```python
%%build toy/trace/core.py : Primitive
```

```python
%%build toy/trace/core.py : eval_rules
```

Prose between.

```python
from toy.trace.core import sin_p

sin_p
```

## Operations

```python
%%build toy/trace/core.py : mul
```

```python
%%build toy/trace/core.py : eval_rules, eval_rules
```

## Arrays

```python
%%build toy/trace/core.py : Array.describe
```

A class goes on.

```python
%%build toy/trace/core.py : Array.__rmul__
```

```python
%%build toy/trace/core.py : Array
```

```python
%%build toy/trace/core.py :
```

```python
%%build toy/numpy.py :
```

```python
%%build toy/__init__.py :
```

## Demo

```python
import toy
from toy.numpy import sin

a = toy.array(2.0)
(a * a, a.describe(), a.size, sin(0.0))
```

```python raises-exception
sin("no")
```

```python raises-exception
%tb
```

## Exercises

Write `cube`.

```python exercise
from toy.trace.core import mul


def cube(x):
    ...
```

```python
%check cube
```
"""

CHAPTER_1S = """\
# More values

```python
%load_ext minijit.book
%chapter 1s
```

```python
%%build toy/trace/more.py :
```

```python
%%build toy/numpy.py :
```

```python
from toy.numpy import neg, negative

neg(1.0), negative(2.0)
```
"""

CHAPTER_2 = """\
# Trees

```python
%load_ext minijit.book
%chapter 2
```

```python raises-exception
from toy import flatten
```

## Registry

```python
%%build toy/trace/pytree.py : register
```

```python
%%build toy/trace/pytree.py :
```

```python
%%build toy/__init__.py :
```

## Demo

```python
from toy import array, flatten
from toy.trace.pytree import Pair

flatten([Pair(array(1), 2), 3])
```
"""

CHAPTER_3 = """\
# Linearize

```python
%load_ext minijit.book
%chapter 3
```

## Rules

```python
%%build toy/transform/lin.py : sin_lin
```

```python
%%build toy/transform/lin.py : lin_rules
```

```python
%%build toy/transform/lin.py : jvp
```

```python
%%build toy/transform/lin.py : clear_caches
```

```python
%%build toy/__init__.py :
```

## Demo

```python
from toy import jvp
from toy.trace.core import sin_p

jvp(sin_p, (0.0,), (1.0,))
```
"""

SOLUTIONS = '''\
"""Solutions to chapter 1."""

from toy.trace.core import mul


def cube(x):
    return mul(x, mul(x, x))


def check_cube(cube):
    """Multiply twice."""
    assert cube(2.0) == 8.0
'''

TESTS = {
    "test_core.py": """
import pytest
from toy.numpy import sin
pytestmark = pytest.mark.chapter(1)
def test_sin(): assert sin(0.0) == 0.0
""",
    "test_more.py": """
import pytest
from helper import two
from toy.numpy import neg
pytestmark = [pytest.mark.chapter("1s")]
def test_neg(): assert neg(two) == -2
""",
    "test_lin.py": """
import pytest
from toy import jvp
from toy.trace.core import sin_p
pytestmark = pytest.mark.chapter(3)
def test_jvp(): assert jvp(sin_p, (0.0,), (1.0,)) == (0.0, 1.0)
""",
    "test_whole.py": "def test_nothing(): pass\n",
    "helper.py": "two = 2\n",
}

SOURCES = {"1": CHAPTER_1, "1s": CHAPTER_1S, "2": CHAPTER_2, "3": CHAPTER_3}
FILES = {
    "book.toml": TOML,
    "toy/__init__.py": INIT,
    "toy/numpy.py": NUMPY,
    "toy/trace/__init__.py": "",
    "toy/trace/core.py": CORE,
    "toy/trace/more.py": MORE,
    "toy/trace/pytree.py": PYTREE,
    "toy/transform/__init__.py": "",
    "toy/transform/lin.py": LIN,
    "chapters/solutions/01_values.py": SOLUTIONS,
    **{f"tests/{name}": text for name, text in TESTS.items()},
}


def make(root: Path, execute: bool = False) -> Book:
    """Write the toy repository and its notebooks into `root`; run them, if asked."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    book = read_book(root)
    for c in book.chapters:
        assert author.new(book, c, SOURCES[c.id]) == []
        if execute:
            assert run.run(book, c) == ""
    return book


@functools.cache
def executed() -> Path:
    """A toy repository whose notebooks have run, once for all tests."""
    root = Path(tempfile.mkdtemp(prefix="toy_book_"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    make(root, execute=True)
    return root


def copy(out: Path) -> Book:
    """A copy of the executed toy repository."""
    shutil.copytree(executed(), out, dirs_exist_ok=True)
    return read_book(out)


def close() -> None:
    """Forget what of the toy this process has opened."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Stage)]
    for name in [m for m in sys.modules if m.partition(".")[0] == "toy"]:
        del sys.modules[name]
    magics.workshop = None


def edit(book: Book, file: str, old: str, new: str) -> None:
    """Replace a text that must be in a file once."""
    path = book.root / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (file, old, text.count(old))
    path.write_text(text.replace(old, new), encoding="utf-8")


def command(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the book by path: that works while the library is broken."""
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    line = [sys.executable, str(REPO / "minijit" / "book"), *args]
    return subprocess.run(
        line, cwd=root, env=env, text=True, capture_output=True, check=False
    )


def by_path(cwd: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process that has the machinery alone, as `minijit_book`."""
    load = f"""
import importlib.util, sys
home = {str(REPO / "minijit" / "book")!r}
spec = importlib.util.spec_from_file_location(
    "minijit_book", home + "/__init__.py", submodule_search_locations=[home]
)
sys.modules["minijit_book"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""
    line = [sys.executable, "-P", "-c", load + code]
    return subprocess.run(line, cwd=cwd, text=True, capture_output=True, check=False)
