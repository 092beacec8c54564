"""Calls made ready: a Python function printed for each signature of a jitted function.

    f = jit(lambda params, x: ...)
    for _ in range(2):
        f({"b": b}, x)
    print(f.shortcuts.calls[0].text)

    # def call(args, kwargs):
    #     try:
    #         if len(args) != 2 or len(kwargs) != 0: return missed
    #         a1, a2, = args
    #         if type(a1) is not dict or len(a1) != 1: return missed
    #         x0 = a1['b']
    #         if type(x0) is not Array: return missed
    #         if x0.aval is not aval_1 and not adopt(x0, aval_1): return missed
    #         ...
    #         v0 = x0._value
    #         if v0 is None: return missed
    #         ...
    #     except Exception:
    #         return missed
    #     y0, = run(v0, v1)
    #     r0 = new(Array)
    #     r0._value = y0
    #     r0.aval = aval_2
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

from ...trace.array import ArrayImpl, ShapedArray, array_classes, known_aval
from ...trace.base.config import config
from ...trace.base.turns import lock
from ...trace.dtypes import float0
from ...trace.jit.jitted import shortcut_makers
from ...trace.jit.signature import sort_arguments
from ...trace.jit.stores import Shortcuts, missed, stores
from ...trace.trees.pytree import Leaf, node_type, tree_flatten
from ..donating import Donating, donated_lines, owned
from ..executable import Executable


class NoShortcut(Exception):
    """These arguments, or results, have to go the long way."""


def in_dict(printer, name, node):
    """The texts for a dict's values, which it has if its keys are the same ones."""
    printer.unless(f"type({name}) is not dict or len({name}) != {node.arity}")
    is_text = lambda key: type(key) is str
    keys = [repr(k) if is_text(k) else printer.constant("key", k) for k in node.data]
    return [f"{name}[{key}]" for key in keys]


def in_other(printer, name, node):
    """The variables for the children of what is in `node_types`; its data count too."""
    kind, data = printer.constant("kind", node.type), printer.fresh()
    printer.unless(f"type({name}) is not {kind}")
    how = printer.constant("flatten", node_type(node.type).flatten)
    found, *children = (printer.fresh() for _ in range(node.arity + 1))
    printer.tests.append(f"{found}, {data} = {how}({name})")
    printer.unless(f"{data} != {printer.constant('data', node.data)}")
    items = f"({', '.join(children)}{',' * bool(children)})"
    printer.tests.append(f"{items} = {found}")
    return children


def literal(node, children):
    """A container as Python writes it, around texts; None if it does not write it."""
    given = "".join(f"{child}, " for child in children)
    if node.type in (tuple, list):
        return f"({given})" if node.type is tuple else f"[{given}]"
    if node.type is dict and all(type(key) is str for key in node.data):
        pairs = zip(node.data, children, strict=True)
        return "{" + ", ".join(f"{key!r}: {child}" for key, child in pairs) + "}"
    return None


class Printer:
    """Collects the lines of a function, and names what they refer to.

    Attributes:
      tests: the lines that look at the arguments; each may return `missed`.
      values: the lines that take the arrays' memory, once all tests have passed.
      names: of the variables for the leaves.
      namespace: what the text refers to besides.
      copies: whether NumPy's arrays must not be read where they are.
    """

    def __init__(self, copies=False):
        self.tests, self.values, self.names = [], [], []
        self.namespace = {"missed": missed, "adopt": adopt, "new": object.__new__}
        self.known = {}
        self.constant("Array", ArrayImpl, numbered=False)
        self.copies, self.count = copies, 0

    def constant(self, kind, value, numbered=True):
        """A name for a value, the same one for the same object."""
        if id(value) not in self.known:
            name = f"{kind}_{len(self.known)}" if numbered else kind
            self.known[id(value)] = name
            self.namespace[name] = value
        return self.known[id(value)]

    def fresh(self):
        self.count += 1
        return f"a{self.count}"

    def unless(self, condition):
        self.tests.append(f"if {condition}: return missed")

    def static(self, text, value):
        """A static argument is known by identity, if that is what it is compared by."""
        kind = type(value)
        own = kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__
        if not own and kind not in (str, int, bool, bytes, float, complex, type(None)):
            raise NoShortcut
        self.unless(f"{text} is not {self.constant('static', value)}")

    def leaf(self, text, x):
        """One leaf: what it must be, and how it becomes NumPy's array."""
        name = f"x{len(self.names)}"
        self.names.append(name)
        self.tests.append(f"{name} = {text}")
        for kind, row in leaf_rows.items():
            # Of an array that was placed over a mesh, results depend on the mesh.
            if isinstance(x, kind) and not hasattr(x, "plain"):
                return row(self, name, name.replace("x", "v"), x)
        raise NoShortcut

    def arguments(self, args, kwargs, statics, leaves):
        """Take the traced arguments apart, and test the static ones."""
        self.unless(f"len(args) != {len(args)} or len(kwargs) != {len(kwargs)}")
        names = [self.fresh() for _ in args]
        if names:
            self.tests.append(f"{', '.join(names)}, = args")
        given = dict(enumerate(args)) | {key: kwargs[key] for key in sorted(kwargs)}
        for key, x in given.items():
            text = names[key] if isinstance(key, int) else f"kwargs[{key!r}]"
            if key in statics:
                self.static(text, x)
            else:
                self.tree(text, iter(tree_flatten(x)[1].nodes), leaves)

    def cells(self, places):
        """Captured variables are still what they were when the function was traced."""
        for place, value in places:
            cell = self.constant("cell", place.holder)
            seen = self.constant("seen", value)
            self.unless(f"{cell}.cell_contents is not {seen}")

    def result(self, i, aval):
        """The lines that make an array `r0` of the memory `y0`."""
        cls = self.constant("kind", array_classes.get(type(aval.dtype), ArrayImpl))
        return [f"r{i} = new({cls})", f"r{i}._value = y{i}"]

    def donations(self, entry, executable, leaves):
        """The lines that take the memory of arguments which are given away."""
        self.namespace["owned"] = owned
        tests, taken = donated_lines(entry, executable, self.names, leaves)
        self.tests += tests
        return taken

    def results(self, executable, tree):
        """-> (the call of the driver, and what makes its results, their text)."""
        self.namespace["run"], avals = executable.run, executable.out_avals
        given = ", ".join(name.replace("x", "v") for name in self.names)
        made = ", ".join(f"y{i}" for i in range(len(avals)))
        lines = [f"{made and made + ', = '}run({given})"]
        names = [f"r{i}" for i in range(len(avals))]
        for i, aval in enumerate(map(the_aval, avals)):
            lines += self.result(i, aval)
            lines += [f"r{i}.aval = {self.constant('aval', aval)}"]

        def container(node, children):
            name, text = self.fresh(), literal(node, children)
            if text is None:
                make = self.constant("make", node_type(node.type).unflatten)
                data = self.constant("data", node.data)
                text = f"{make}({data}, [{', '.join(children)}])"
            lines.append(f"{name} = {text}")
            return name

        return lines, tree.fold(names, container)


@functools.lru_cache(maxsize=1024)
def code_of(text):
    """A text compiled; functions with arguments alike share it."""
    return compile(text, os.path.join(os.path.dirname(__file__), "<call>"), "exec")


# A function of so many leaves is printed for the second call, one of more for a later
# one, as it takes a while.
LEAVES_A_MISS = 100


def make_shortcut(jitted, entry, args, kwargs, leaves, updates):
    """Make the next call of this kind short, if calls come again and again.

    That is tried when a call goes the long way for the second time, and for the fourth,
    the eighth, and so on.
    """
    jitted.shortcuts.misses += 1
    misses = jitted.shortcuts.misses
    if misses < 2 or misses & (misses - 1) or len(leaves) > LEAVES_A_MISS * misses:
        return
    if entry.executable.at(leaves).native not in printers:
        return
    if jitted.watched or not config.calls_are_plain():
        return
    try:
        shortcut = print_shortcut(jitted, entry, args, kwargs, leaves)
    except NoShortcut:
        return
    with lock:
        # Nothing was cleared, and no flag switched, since the arguments were looked up.
        valid = any(known is entry for known in jitted.entries.values())
        if valid and updates == config.updates and not jitted.has_new_cells():
            jitted.shortcuts.add(shortcut)


def forget_shortcuts():
    """A flag has been switched: make all calls ready anew."""
    with lock:
        for table in stores:
            if isinstance(table, Shortcuts):
                table.clear()


# chapter 25
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


def array_leaf(printer, name, array, x):
    """An array: its class, its type, and that it was not deleted."""
    aval = printer.constant("aval", the_aval(x.aval))
    printer.unless(f"type({name}) is not {printer.constant('kind', type(x))}")
    printer.unless(f"{name}.aval is not {aval} and not adopt({name}, {aval})")
    printer.values.append(f"{array} = {name}._value")
    printer.values.append(f"if {array} is None: return missed")


# type of a leaf -> the function that prints what is tested.
leaf_rows = {ArrayImpl: array_leaf}


def in_sequence(printer, name, node):
    """The variables for the items of a tuple or a list."""
    kind = node.type.__name__
    printer.unless(f"type({name}) is not {kind} or len({name}) != {node.arity}")
    children = [printer.fresh() for _ in range(node.arity)]
    if children:
        printer.tests.append(f"{', '.join(children)}, = {name}")
    return children


# type of a container -> the function that prints its tests, and names what is in it.
container_rows = {
    dict: in_dict,
    tuple: in_sequence,
    list: in_sequence,
    "other": in_other,
}


class ShortcutPrinter(Printer):
    """Prints the function for one signature."""

    def tree(self, text, nodes, leaves):
        """Take a tree apart: a test and a line for each container."""
        node = next(nodes)
        if node.type is Leaf:
            return self.leaf(text, next(leaves))
        name = self.fresh()
        self.tests.append(f"{name} = {text}")
        row = container_rows.get(node.type) or container_rows["other"]
        for child in row(self, name, node):
            self.tree(child, nodes, leaves)

    def text(self, entry, leaves):
        """The text of the function, once the arguments were taken apart."""
        executable = entry.executable.at(leaves)
        taken = self.donations(entry, executable, leaves)
        lines, result = self.results(executable, entry.out_tree)
        parts = [
            "def call(args, kwargs):",
            "    try:",
            *(f"        {line}" for line in (*self.tests, *self.values)),
            "    except Exception:",
            "        return missed",
            *(f"    {line}" for line in (*taken, *lines)),
            f"    return {result}",
        ]
        return "\n".join(parts)


# native -> what prints the shortcuts of such executables; others have none.
printers = {"llvm": ShortcutPrinter}


def print_shortcut(jitted, entry, args, kwargs, leaves):
    """A function (args, kwargs) -> result, or `missed`; its text is in `text`."""
    executable = entry.executable.at(leaves)
    # What runs uncompiled may keep its arguments.
    printer = printers[executable.native](copies=bool(executable.fallbacks))
    statics = sort_arguments(jitted.options, args, kwargs).statics
    printer.arguments(args, kwargs, statics, iter(leaves))
    printer.cells(jitted.cells)
    text = printer.text(entry, leaves)
    exec(code_of(text), printer.namespace)
    shortcut = printer.namespace.pop("call")
    shortcut.text = text
    return shortcut


shortcut_makers |= {Executable: make_shortcut, Donating: make_shortcut}

config.listeners.append(forget_shortcuts)
