"""Jaxprs as text, in JAX's form, and back.

    print(make_jaxpr(f)(3.0))        { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    parse_jaxpr(str(jaxpr))          the jaxpr again: variables and literals are new

Names are unique in the whole text, nested jaxprs included.  A jaxpr that stands in
several equations is printed once, before the rest, under a name:

    let inner = { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) } in
    { lambda ; c:f32[]. let
        d:f32[] = jit[name=inner jaxpr=inner] c
        e:f32[] = jit[name=inner jaxpr=inner] d
      in (e,) }

Weak types are not printed, as in JAX; the parser takes inputs and literals for strong.
"""

import ast
import itertools
import re

import numpy as np

from . import dtypes
from .array import ShapedArray, result_avals, shape_rules
from .elementwise import RoundingMethod
from .indexing import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from .jaxpr import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    jaxpr_printers,
    scalar,
    subjaxprs,
)
from .primitives import Precision

WIDTH = 80
KEYWORDS = ("in", "let", "lambda")

# Dtypes by their names in types (`f32`) and in parameters (`float32`).
short_names = {dtypes.short_dtype_name(d): d for d in dtypes.dtype_names}
long_names = {d.name: d for d in dtypes.dtype_names}

# Parameters that are not printed if they have this value, as in JAX.
quiet_params = {"dot_general": {"precision": None}}

# Aval types by class: how they print, and by the text before "[", how they are read.
aval_printers: dict = {ShapedArray: ShapedArray.str_short}
aval_parsers = {}


def print_aval(aval):
    """`f32[2,3]`, or whatever the aval's class has in `aval_printers`."""
    return aval_printers[type(aval)](aval)


def letters(n):
    """The n-th variable name: a, b, ..., z, ba, bb, ..."""
    name = ""
    while True:
        name = chr(ord("a") + n % 26) + name
        n //= 26
        if n == 0:
            return name


class Names:
    """The names that variables and shared jaxprs have in one text."""

    def __init__(self):
        self.vars = {}
        self.jaxprs = {}
        self.count = itertools.count()

    def __call__(self, var):
        if var not in self.vars:
            name = letters(next(self.count))
            while name in KEYWORDS:
                name = letters(next(self.count))
            self.vars[var] = name
        return self.vars[var]

    def name_jaxpr(self, jaxpr, wanted):
        """A name for a shared jaxpr: the function's, numbered if it is taken."""
        wanted = re.sub(r"\W", "_", wanted) or "jaxpr"
        name, n = wanted, 0
        while name in self.jaxprs.values():
            n += 1
            name = f"{wanted}_{n}"
        self.jaxprs[jaxpr] = name
        return name


def jaxpr_text(jaxpr, source_info=False):
    """The text of a `Jaxpr`, shared jaxprs first.

    Args:
      jaxpr: a `Jaxpr`.
      source_info: whether to end each equation with the user's line.
    """
    names, out = Names(), []
    for shared, wanted in shared_jaxprs(jaxpr):
        # Printed before it gets its name, or it would print as just the name.
        head, *rest = jaxpr_lines(shared, names, WIDTH - 4, source_info)
        out += [f"let {names.name_jaxpr(shared, wanted)} = {head}", *rest]
        out[-1] += " in"
    return "\n".join(out + jaxpr_lines(jaxpr, names, WIDTH, source_info))


jaxpr_printers |= {"text": jaxpr_text}


def shared_jaxprs(jaxpr):
    """[(jaxpr, name)] of those that stand in several equations, inner ones first."""
    count, wanted, order = {}, {}, []
    todo = [(jaxpr, False)]
    while todo:
        jaxpr, done = todo.pop()
        if done:
            order.append(jaxpr)
            continue
        todo.append((jaxpr, True))
        for eqn in jaxpr.eqns:
            for sub in subjaxprs(eqn):
                count[sub] = count.get(sub, 0) + 1
                wanted.setdefault(sub, str(eqn.params.get("name", eqn.primitive.name)))
                if count[sub] == 1:
                    todo.append((sub, False))
    return [(j, wanted[j]) for j in order if count.get(j, 0) > 1]


def jaxpr_lines(jaxpr, names, width, source_info=False):
    """The lines of one jaxpr; a single one where it fits into `width`."""
    consts, args = (
        " ".join(print_binder(v, names) for v in variables)
        for variables in (jaxpr.constvars, jaxpr.invars)
    )
    head = f"{{ lambda {consts}; {args}. let"
    eqns = [eqn_lines(eqn, names, width - 4, source_info) for eqn in jaxpr.eqns]
    results = [print_atom(v, names) for v in jaxpr.outvars]
    tail = f"in ({', '.join(results)}{',' * (len(results) == 1)}) }}"
    if len(eqns) < width and all(len(lines) == 1 for lines in eqns):
        middle = "; ".join(lines[0] for lines in eqns)
        flat = f"{head} {middle} {tail}" if eqns else f"{head} {tail}"
        if len(flat) <= width and "#" not in flat:
            return [flat]
    return [head, *["    " + line for lines in eqns for line in lines], "  " + tail]


def print_binder(var, names):
    """A variable where it is bound: `a:f32[3]`."""
    return f"{names(var)}:{print_aval(var.aval)}"


def print_atom(atom, names):
    """A variable's name, or a literal with its type: `2.0:f32[]`."""
    if isinstance(atom, Var):
        return names(atom)
    return f"{atom.val.item() if exact(atom.val) else atom.val}:{print_aval(atom.aval)}"


def exact(value):
    """Whether Python's own number prints the value as well as NumPy's scalar does."""
    return value.dtype.kind in "biu"


def eqn_lines(eqn, names, width, source_info):
    """The lines of one equation: one if it fits, else one a parameter."""
    left = " ".join(print_binder(v, names) for v in eqn.outvars)
    right = " ".join(print_atom(v, names) for v in eqn.invars)
    comment = f"  # {eqn.source}" if source_info and eqn.source else ""
    start = f"{left} = {eqn.primitive.name}" if left else eqn.primitive.name
    quiet = quiet_params.get(eqn.primitive.name, {})
    keys = [k for k, v in eqn.params.items() if k not in quiet or v != quiet[k]]
    if not keys:
        return [f"{start} {right}".rstrip() + comment]
    # A call's name comes first, as in JAX; the rest in alphabetical order.
    params = [
        indent_rest(key + "=", print_param(key, eqn.params[key], names, width - 4))
        for key in sorted(keys, key=lambda key: (key != "name", key))
    ]
    flat = f"{start}[{' '.join(p[0] for p in params)}] {right}".rstrip()
    if all(len(p) == 1 for p in params) and len(flat) <= width:
        return [flat + comment]
    body = ["  " + line for lines in params for line in lines]
    return [f"{start}[", *body, f"] {right}".rstrip() + comment]


def indent_rest(prefix, lines):
    """Put `prefix` before the first of some lines."""
    return [prefix + lines[0], *lines[1:]]


def print_param(key, value, names, width):
    """The lines of a parameter's value."""
    if isinstance(value, ClosedJaxpr):
        value = value.jaxpr
    if isinstance(value, Jaxpr):
        if value in names.jaxprs:
            return [names.jaxprs[value]]
        return jaxpr_lines(value, names, width)
    if isinstance(value, tuple) and value and isinstance(value[0], ClosedJaxpr):
        inner = [line for v in value for line in print_param(key, v, names, width - 2)]
        return ["(", *["  " + line for line in inner], ")"]
    return [print_value(value, brackets=key == "dimension_numbers")]


def print_value(value, brackets=False):
    """A parameter that is no jaxpr.  JAX prints the innermost tuples of dot_general's
    dimension numbers with square brackets."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        inner = [print_value(v, brackets) for v in value]
        if brackets and not any(isinstance(v, tuple) for v in value):
            return f"[{', '.join(inner)}]"
        return f"({', '.join(inner)}{',' * (len(inner) == 1)})"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, str):
        return repr(value) if re.search(r"[\s\[\](){}'\"=]|^$", value) else value
    if hasattr(value, "_asdict"):
        inner = [f"{k}={print_value(v)}" for k, v in value._asdict().items()]
        return f"{type(value).__name__}({', '.join(inner)})"
    if hasattr(type(value), "__members__"):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


# Classes whose instances stand in parameters, by name: how `print_value`'s
# `Name(field=...)` and `Name.MEMBER` are read back.
param_types = {
    c.__name__: c
    for c in (
        GatherDimensionNumbers,
        ScatterDimensionNumbers,
        GatherScatterMode,
        Precision,
        RoundingMethod,
    )
}

SPACE = r"\s*(?:#[^\n]*\n\s*)*"
TOKEN = re.compile(SPACE + r"([^\s()\[\]{};,=:]+|[()\[\]{};,=:])")
# A type's brackets may hold types with brackets of their own.
BINDER = re.compile(SPACE + r"([a-z]+):([\w<>]+\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])")
# A literal starts with no small letter, or it would look like a variable bound.
ATOM = re.compile(
    SPACE
    + r"([a-z]+|(?=[^a-z]|nan|inf)[^\s\[\]{};]+:\w+\[[\d,]*\])"
    + r"(?=[\s,;)#](?!=))"
)


def parse_jaxpr(text):
    """Read the text of a jaxpr back: -> a `Jaxpr`.

    Raises:
      SyntaxError: the text is not a jaxpr's; it names the place.
    """
    reader = Reader(text)
    while reader.take("let"):
        name = reader.token()
        reader.expect("=")
        reader.shared[name] = reader.jaxpr()
        reader.expect("in")
    return reader.jaxpr()


class Reader:
    """A recursive-descent parser: one method for each line of the grammar.

    Its depth is that of the nesting of jaxprs; equations are read in a loop.
    """

    def __init__(self, text):
        self.text = text
        self.at = 0
        self.vars = {}
        self.shared = {}
        self.primitives = {p.name: p for p in shape_rules}

    def error(self, message):
        line = self.text.count("\n", 0, self.at) + 1
        near = self.text[self.at : self.at + 40].strip()
        return SyntaxError(f"line {line} of the jaxpr: {message}, at {near!r}")

    def peek(self):
        """The next token, without taking it."""
        match = TOKEN.match(self.text, self.at)
        return match[1] if match else ""

    def token(self):
        """Take the next token."""
        match = TOKEN.match(self.text, self.at)
        if not match:
            raise self.error("the text ends too early")
        self.at = match.end()
        return match[1]

    def take(self, wanted):
        """Take the next token if it is `wanted`."""
        found = self.peek() == wanted
        if found:
            self.token()
        return found

    def expect(self, wanted):
        """Take the next token, which must be `wanted`."""
        if not self.take(wanted):
            raise self.error(f"expected {wanted!r}")

    def jaxpr(self):
        """`{ lambda constvars ; invars . let eqns in (outvars) }`"""
        self.expect("{")
        self.expect("lambda")
        constvars = self.binders()
        self.expect(";")
        invars = self.binders()
        self.expect(".")
        self.expect("let")
        eqns = []
        while not self.take("in"):
            eqns.append(self.eqn())
            self.take(";")
        self.expect("(")
        outvars = []
        while not self.take(")"):
            outvars.append(self.atom())
            self.take(",")
        self.expect("}")
        return Jaxpr(constvars, invars, tuple(eqns), tuple(outvars))

    def binders(self):
        """Variables with their types, which they get here: -> tuple."""
        found = []
        while match := BINDER.match(self.text, self.at):
            self.at = match.end()
            var = self.vars[match[1]] = Var(parse_aval(match[2]))
            found.append(var)
        return tuple(found)

    def atom(self):
        """A variable or a literal."""
        match = ATOM.match(self.text, self.at)
        if not match:
            raise self.error("expected a variable or a literal")
        self.at = match.end()
        value, colon, kind = match[1].rpartition(":")
        if not colon:
            if kind not in self.vars:
                raise self.error(f"the variable {kind} has no value here")
            return self.vars[kind]
        aval = parse_aval(kind)
        return Literal(scalar(parse_number(value), aval), aval)

    def eqn(self):
        """`outvars = primitive[params] atoms`"""
        outvars = self.binders()
        if outvars:
            self.expect("=")
        name = self.token()
        if name not in self.primitives:
            raise self.error(f"there is no primitive called {name}")
        params = dict(quiet_params.get(name, {}))
        params |= self.params() if self.take("[") else {}
        invars = []
        while ATOM.match(self.text, self.at) and self.peek() != "in":
            invars.append(self.atom())
        return typed_eqn(self.primitives[name], tuple(invars), outvars, params)

    def params(self):
        """`name=value ...]`, the opening bracket already taken."""
        params = {}
        while not self.take("]"):
            key = self.token()
            self.expect("=")
            params[key] = self.param(key)
        return params

    def param(self, key):
        """One parameter's value: a jaxpr, a tuple of them, or anything else."""
        if self.peek() == "{":
            return ClosedJaxpr(self.jaxpr())
        if re.match(r"\s*\(\s*\{", self.text[self.at : self.at + 200]):
            self.expect("(")
            jaxprs = []
            while not self.take(")"):
                jaxprs.append(ClosedJaxpr(self.jaxpr()))
            return tuple(jaxprs)
        text = self.balanced()
        if key != "name" and text in self.shared:
            return ClosedJaxpr(self.shared[text])
        return text if key == "name" and text[0] not in "'\"" else parse_value(text)

    def balanced(self):
        """The text up to a space or a bracket that closes what is around it."""
        depth, start, quote = 0, self.at, ""
        while self.at < len(self.text):
            c = self.text[self.at]
            if quote:
                quote = "" if c == quote else quote
            elif c in "'\"":
                quote = c
            elif depth == 0 and (c.isspace() or c == "]"):
                return self.text[start : self.at]
            depth += (c in "([{") - (c in ")]}") if not quote else 0
            self.at += 1
        raise self.error("a parameter does not end")


def typed_eqn(primitive, invars, outvars, params):
    """An equation as read, with the weak types that its shape rule gives."""
    avals = result_avals(primitive, [v.aval for v in invars], params)
    for var, aval in zip(outvars, avals, strict=True):
        if isinstance(aval, ShapedArray) and aval.strip_weak_type() == var.aval:
            var.aval = aval
    return Eqn(primitive, invars, outvars, params)


def parse_aval(text):
    """`f32[2,3]` -> `ShapedArray`, or whatever `aval_parsers` says of the name."""
    name, _, inside = text.partition("[")
    inside = inside.removesuffix("]")
    if name in aval_parsers:
        return aval_parsers[name](inside)
    shape = tuple(int(n) for n in inside.split(",") if n)
    return ShapedArray(shape, short_names[name])


def parse_number(text):
    """A literal's value; `nan`, `inf` and complex numbers included."""
    words = {"True": True, "False": False}
    if text in words:
        return words[text]
    try:
        return int(text)
    except ValueError:
        return complex(text) if "j" in text else np.longdouble(text)


def parse_value(text):
    """A parameter's value from `print_value`'s text."""
    try:
        return value_of_node(ast.parse(text, mode="eval").body)
    except (SyntaxError, KeyError) as error:
        raise SyntaxError(f"cannot read the parameter {text!r} of a jaxpr") from error


def value_of_node(node):
    """The value that a parsed Python expression stands for."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Tuple(elts) | ast.List(elts):
            return tuple(map(value_of_node, elts))
        case ast.UnaryOp(ast.USub(), operand):
            return -value_of_node(operand)
        case ast.Call(ast.Name(name), [], keywords):
            fields = {k.arg: value_of_node(k.value) for k in keywords}
            return param_types[name](**fields)
        case ast.Attribute(ast.Name(name), member):
            return param_types[name][member]
        case ast.Name("nan" | "inf" as name):
            return float(name)
        case ast.Name(name):
            return long_names.get(name, name)
    raise SyntaxError(f"{ast.unparse(node)} is no parameter of a jaxpr")
