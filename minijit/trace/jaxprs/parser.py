"""The text of a jaxpr read back, so that a test or a report can hold a program.

    parse_jaxpr(str(jaxpr))          the jaxpr again: variables and literals are new

Weak types are not printed, as in JAX; inputs and literals are taken for strong ones.
"""

import ast
import re

import numpy as np

from .. import dtypes
from ..array import ShapedArray, result_avals, shape_rules
from ..base.demand import add_rows
from ..primitives import Precision
from .jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, scalar
from .text import quiet_params

# Dtypes by their names in types (`f32`) and in parameters (`float32`).
short_names = {dtypes.short_dtype_name(d): d for d in dtypes.dtype_names}
long_names = {d.name: d for d in dtypes.dtype_names}

# Types that are not arrays', by the text before "[": how they are read.
aval_parsers: dict = {}

# Classes whose instances stand in parameters, by name: how `print_value`'s
# `Name(field=...)` and `Name.MEMBER` are read back.
param_types: dict = {"Precision": Precision}

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
        add_rows("trace.jaxprs.parser")
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
