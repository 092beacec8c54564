"""What failed operators say: `x @ w`, with the types of both and the user's line.

    x @ w
    # TypeError: dot_general requires contracting dimensions to have the same shape ...
    #   in f32[3,4] @ f32[5,2]
    #   at program.py:3 (main)
"""

import sys

from ..base.demand import fetch
from ..base.errors import HERE, PACKAGE, left_out
from ..base.frames import leave_out_frames
from .calls import describe, explaining_calls, is_ours

left_out["operators"] += (__file__,)

binary_symbols = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
    "matmul": "@", "pow": "**", "and": "&", "or": "|", "xor": "^", "lshift": "<<",
    "rshift": ">>",
}  # fmt: skip
comparisons = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# How a failed operator is shown, its operands given as texts.
shown_operators = {
    "__getitem__": "{0}[{1}]",
    "__setitem__": "{0}[{1}] = {2}",
    "__neg__": "-{0}",
    "__pos__": "+{0}",
    "__invert__": "~{0}",
    "__abs__": "abs({0})",
    "__iter__": "iter({0})",
}
for symbols in (binary_symbols, comparisons):
    for name, symbol in symbols.items():
        shown_operators[f"__{name}__"] = f"{{0}} {symbol} {{1}}"
for name, symbol in binary_symbols.items():
    shown_operators[f"__r{name}__"] = f"{{1}} {symbol} {{0}}"


def explaining_operator(name, rules):
    """A method for `x + y` or `x[i]` whose errors show the operands and the line.

    A `try` statement takes no time while all goes well, and a method of two arguments
    less than one of any number.
    """

    def binary(self, other):
        try:
            return rules[name](self, other)
        except Exception as error:
            explain_operator(error, name, (self, other), sys._getframe(1))
            raise

    def other_operator(self, *operands):
        try:
            return rules[name](self, *operands)
        except Exception as error:
            explain_operator(error, name, (self, *operands), sys._getframe(1))
            raise

    shown = shown_operators[name]
    method = binary if "{1}" in shown and "{2}" not in shown else other_operator
    method.__name__ = method.__qualname__ = name
    return method


def explain_operator(error, name, operands, frame):
    """Say in an error of an operator what its operands were, and on which line."""
    if frame.f_code.co_filename.startswith(PACKAGE):
        return
    text = error.args[0] if len(error.args) == 1 else None
    if isinstance(text, str) and is_ours(error) and "\n  at " not in text:
        call = shown_operators[name].format(*map(describe, operands))
        error.args = (f"{text}\n  in {call}{HERE}",)
        error.explained = name
    leave_out_frames(error, frame)


def explain_operators(cls, rules):
    """Let operators of a class explain their errors; `rules` say what they do.

    What stands for a public function calls it as users do, who may call it often.
    """
    for name in shown_operators:
        if name in rules and name in vars(cls):
            function = getattr(rules[name], "function", None)
            if id(function) in explaining_calls:
                rules[name] = rules[name].calling(explaining_calls[id(function)])
            setattr(cls, name, explaining_operator(name, rules))


def give_to_class(cls, rules):
    """Let programs ask the class for what its instances have: `jax.Array.sum`."""
    for name, rule in rules.items():
        if not name.startswith("__"):
            setattr(cls, name, rule)
    cls.item = lambda x, *args: x.__array__().item(*args)
    cls.tolist = lambda x: x.__array__().tolist()


class Later:
    """A method of arrays whose module, once it is asked for, gives it to their class.

    It gives others, too: all that stand there like this one.
    """

    def __init__(self, name, module):
        self.name, self.module = name, module

    def __get__(self, x, cls):
        fetch(self.module)
        return getattr(cls if x is None else x, self.name)
