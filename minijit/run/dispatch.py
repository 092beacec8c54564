"""Calls made ready: a Python function printed for each signature of a jitted function.

    @jit
    def f(params, x): ...

    for _ in range(3):
        f({"w": w, "b": b}, x)
    print(f.shortcuts.calls[0].text)

    # def call(args, kwargs):
    #     try:
    #         if len(args) != 2: return missed
    #         a0, a1, = args
    #         if type(a0) is not dict or len(a0) != 2: return missed
    #         x0 = a0['b']
    #         if type(x0) is not Array: return missed
    #         if x0.aval is not aval_0 and not adopt(x0, aval_0): return missed
    #         ...
    #         v0 = x0._value
    #         if v0 is None: return missed
    #     except Exception:
    #         return missed
    #     y0, = run(v0, v1, v2)
    #     r0 = new(Array)
    #     r0._value = y0
    #     r0.aval = aval_3
    #     return r0

`jit` flattens the arguments of a call, makes a key of their types, looks it up, and has
an executable turn arrays into NumPy's and back.  All of that is the same for the next
call with such arguments.  A shortcut only tests that they are of the same structure and
types, and calls the driver.  Whatever does not pass goes the long way, which knows all
cases and all errors.
"""

import functools
import os

import numpy as np

from ..trace.array import ArrayImpl, ShapedArray, array_classes, aval_of
from ..trace.config import config
from ..trace.dtypes import float0
from ..trace.jit import shortcut_makers
from ..trace.pytree import Leaf, node_type, tree_flatten
from ..trace.signature import sort_arguments
from ..trace.stores import Shortcuts, missed, stores
from ..trace.turns import lock
from .executable import Executable


class NoShortcut(Exception):
    """These arguments, or results, have to go the long way."""


@functools.lru_cache(maxsize=4096)
def known_aval(shape, dtype, weak_type):
    """The one aval of its kind: types that are the same object need no comparison."""
    return ShapedArray(shape, dtype, weak_type)


def the_aval(aval):
    """The one of the same kind; not of what no kernel has in memory, such as tapes."""
    if type(aval) is not ShapedArray or aval.dtype in (np.dtype(object), float0):
        raise NoShortcut
    return known_aval(aval.shape, aval.dtype, aval.weak_type)


def adopt(x, aval):
    """Whether an array is of a known type; if so, it bears that type from now on."""
    if x.aval != aval:
        return False
    x.aval = aval
    return True


class ShortcutPrinter:
    """Prints the function for one signature.

    Attributes:
      tests: the lines that look at the arguments; each may return `missed`.
      values: the lines that take the arrays' memory, once all tests have passed.
      names: of the variables for the leaves, and for NumPy's array of each.
      namespace: what the text refers to besides.
    """

    def __init__(self):
        self.tests, self.values, self.names, self.arrays = [], [], [], []
        self.namespace = {
            "Array": ArrayImpl, "adopt": adopt, "array": np.array, "missed": missed,
            "ndarray": np.ndarray, "new": object.__new__,
        }  # fmt: skip
        self.known = {id(ArrayImpl): "Array"}
        self.count = 0

    def constant(self, kind, value):
        """A name for a value, the same one for the same object."""
        if id(value) not in self.known:
            name = self.known[id(value)] = f"{kind}_{len(self.known)}"
            self.namespace[name] = value
        return self.known[id(value)]

    def key(self, key):
        """A key of a dict: a string stands for itself."""
        return repr(key) if type(key) is str else self.constant("key", key)

    def fresh(self):
        self.count += 1
        return f"a{self.count}"

    def unless(self, condition):
        self.tests.append(f"if {condition}: return missed")

    # ---- arguments

    def arguments(self, call, options, args, kwargs, leaves):
        """Take the arguments apart, and test the static ones."""
        self.leaves = iter(leaves)
        names = [self.fresh() for _ in args]
        self.unless(f"len(args) != {len(args)} or len(kwargs) != {len(kwargs)}")
        if names:
            self.tests.append(f"{', '.join(names)}, = args")
        for i, (name, x) in enumerate(zip(names, args, strict=True)):
            if i in call.statics:
                self.static(name, x)
            else:
                self.tree(name, iter(tree_flatten(x)[1].nodes))
        for key in sorted(kwargs):
            if key in call.statics:
                self.static(f"kwargs[{key!r}]", kwargs[key])
            else:
                self.tree(f"kwargs[{key!r}]", iter(tree_flatten(kwargs[key])[1].nodes))

    def static(self, text, value):
        """A static argument is known by identity, if that is what it is compared by."""
        kind = type(value)
        own = kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__
        if not own and kind not in (str, int, bool, bytes, float, complex, type(None)):
            raise NoShortcut
        self.unless(f"{text} is not {self.constant('static', value)}")

    def tree(self, text, nodes):
        """Take a tree apart: one line for each container."""
        node = next(nodes)
        if node.type is Leaf:
            self.leaf(text, next(self.leaves))
        elif node.type is type(None):
            self.unless(f"{text} is not None")
        elif node.type is dict:
            name = self.named(text)
            self.unless(f"type({name}) is not dict or len({name}) != {node.arity}")
            for key in node.data:
                self.tree(f"{name}[{self.key(key)}]", nodes)
        else:
            self.container(text, node, nodes)

    def container(self, text, node, nodes):
        """A list, a tuple, or whatever a user has registered."""
        name, kind = self.named(text), self.constant("kind", node.type)
        if node.type in (tuple, list):
            test = f"type({name}) is not {kind} or len({name}) != {node.arity}"
            self.unless(test)
        else:
            self.unless(f"type({name}) is not {kind}")
            how = self.constant("flatten", node_type(node.type).flatten)
            data, before = self.fresh(), name
            name = self.fresh()
            self.tests.append(f"{name}, {data} = {how}({before})")
            self.unless(f"{data} != {self.constant('data', node.data)}")
        children = [self.fresh() for _ in range(node.arity)]
        if children:
            self.tests.append(f"{', '.join(children)}, = {name}")
        for child in children:
            self.tree(child, nodes)

    def named(self, text):
        """A variable that holds what the text says."""
        if text.isidentifier():
            return text
        name = self.fresh()
        self.tests.append(f"{name} = {text}")
        return name

    def leaf(self, text, x):
        """One leaf: what it must be, and how it becomes NumPy's array."""
        i = len(self.names)
        name, array = f"x{i}", f"v{i}"
        self.names.append(name)
        self.arrays.append(array)
        self.tests.append(f"{name} = {text}")
        for kind, row in leaf_rows.items():
            if isinstance(x, kind):
                return row(self, name, array, x)
        raise NoShortcut

    def array_leaf(self, name, array, x):
        aval = self.constant("aval", the_aval(x.aval))
        self.unless(f"type({name}) is not {self.constant('kind', type(x))}")
        self.unless(f"{name}.aval is not {aval} and not adopt({name}, {aval})")
        self.values += [
            f"{array} = {name}._value",
            f"if {array} is None: return missed",
        ]

    def numpy_leaf(self, name, array, x):
        """NumPy's own array is read where it is, if a kernel can read it."""
        if type(x) is not np.ndarray:
            raise NoShortcut
        dtype, aval = self.constant("dtype", x.dtype), the_aval(aval_of(x))
        shape = self.constant("shape", x.shape)
        self.unless(f"type({name}) is not ndarray or {name}.dtype != {dtype}")
        self.unless(f"{name}.shape != {shape}")
        if self.copies or aval.dtype != x.dtype:
            self.converted(name, array, aval)
            return
        self.values += [
            f"{array} = {name}",
            f"if {array}.flags.num & {READABLE} != {READABLE}: "
            f"{array} = array({array}, order='C')",
        ]

    def number_leaf(self, name, array, x):
        """A number of Python or NumPy."""
        self.unless(f"type({name}) is not {self.constant('kind', type(x))}")
        self.converted(name, array, the_aval(aval_of(x)))

    def converted(self, name, array, aval):
        dtype = self.constant("dtype", aval.dtype)
        self.values.append(f"{array} = array({name}, {dtype}, order='C')")

    # ---- results

    def results(self, avals, tree):
        """Arrays of our own around NumPy's, and the tree of which they are leaves."""
        lines, names = [], [f"r{i}" for i in range(len(avals))]
        for i, aval in enumerate(map(the_aval, avals)):
            cls = self.constant("kind", array_classes.get(type(aval.dtype), ArrayImpl))
            lines += [
                f"r{i} = new({cls})",
                f"r{i}._value = y{i}",
                f"r{i}.aval = {self.constant('aval', aval)}",
            ]

        def make(node, children):
            given = "".join(f"{child}, " for child in children)
            if node.type is type(None):
                return "None"
            if node.type in (tuple, list):
                text = f"({given})" if node.type is tuple else f"[{given}]"
            elif node.type is dict:
                pairs = zip(map(self.key, node.data), children, strict=True)
                text = "{" + ", ".join(f"{k}: {child}" for k, child in pairs) + "}"
            else:
                how = self.constant("unflatten", node_type(node.type).unflatten)
                text = f"{how}({self.constant('data', node.data)}, ({given}))"
            name = self.fresh()
            lines.append(f"{name} = {text}")
            return name

        return lines, tree.fold(names, make)

    def print(self, entry, cells, leaves):
        """The text of the function."""
        executable = entry.executable
        self.namespace["run"] = executable.run
        for place, value in cells:
            cell = self.constant("cell", place.holder)
            seen = self.constant("seen", value)
            self.unless(f"{cell}.cell_contents is not {seen}")
        made = "".join(f"y{i}, " for i in range(len(executable.out_avals)))
        given = ", ".join(self.arrays)
        lines, result = self.results(executable.out_avals, entry.out_tree)
        given_away = zip(self.names, leaves, entry.donated, strict=True)
        after = [
            f"{name}.delete()"
            for name, x, is_donated in given_away
            if is_donated and isinstance(x, ArrayImpl)
        ]
        body = [f"{made.rstrip()} = run({given})" if made else f"run({given})"]
        return "\n".join([
            "def call(args, kwargs):",
            "    try:",
            *(f"        {line}" for line in [*self.tests, *self.values]),
            "    except Exception:",
            "        return missed",
            *(f"    {line}" for line in [*body, *lines, *after]),
            f"    return {result}",
        ])  # fmt: skip


# NumPy's flags of an array that is aligned and row-major.
READABLE = 0x0001 | 0x0100

# type of a leaf -> the method that prints what is tested.
leaf_rows = {
    ArrayImpl: ShortcutPrinter.array_leaf,
    np.ndarray: ShortcutPrinter.numpy_leaf,
    np.generic: ShortcutPrinter.number_leaf,
    (bool, int, float, complex): ShortcutPrinter.number_leaf,
}


@functools.lru_cache(maxsize=1024)
def code_of(text):
    """A text compiled; functions with arguments alike share it."""
    return compile(text, os.path.join(os.path.dirname(__file__), "<call>"), "exec")


LEAVES_A_MISS = 100


def make_shortcut(jitted, entry, args, kwargs, leaves, updates):
    """Make the next call of this kind short, if these arguments come again and again.

    That is tried when a call goes the long way for the second time, and for the fourth,
    the eighth, ...; for a large tree it takes a while, and comes later.
    """
    jitted.shortcuts.misses += 1
    misses, executable = jitted.shortcuts.misses, entry.executable
    if misses < 2 or misses & (misses - 1) or len(leaves) > LEAVES_A_MISS * misses:
        return
    if executable.native != "llvm":
        return
    if not config.calls_are_plain() or jitted.watched:
        return
    printer = ShortcutPrinter()
    # What runs uncompiled may keep its arguments.
    printer.copies = bool(executable.fallbacks)
    try:
        call = sort_arguments(jitted.options, args, kwargs)
        printer.arguments(call, jitted.options, args, kwargs, leaves)
        text = printer.print(entry, jitted.cells, leaves)
    except NoShortcut:
        return
    exec(code_of(text), printer.namespace)
    shortcut = printer.namespace.pop("call")
    shortcut.text = text
    with lock:
        # Nothing was cleared, and no flag switched, since the arguments were looked up.
        valid = any(known is entry for known in jitted.entries.values())
        if valid and updates == config.updates and not jitted.has_new_cells():
            jitted.shortcuts.add(shortcut)


def forget_shortcuts():
    """A flag has been switched: make all calls ready anew."""
    with lock:
        for table in list(stores):
            if isinstance(table, Shortcuts):
                table.clear()


config.listeners.append(forget_shortcuts)
shortcut_makers |= {Executable: make_shortcut}
