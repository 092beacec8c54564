"""What is known of sums and products of indices: rules for integers of 64 bits.

    i, j = Axis(4), Axis(8)                          # i is 0 .. 3, j is 0 .. 7
    (i * 8 + j) // 8                                 # i
    (i * 8 + j) % 4                                  # j % 4
    (i // 6) * 6 + i % 6                             # i
    min(max(j, 0), 7)                                # j: it is never outside

`op` of `expressions` asks these rules of every operation that gives an integer of 64
bits, an index as well as what a user computes.  They hold whatever wraps around, but
for those of `floordiv` and `mod`, which are of indices only and never wrap (the users'
own are `div` and `rem`).
"""

import functools
import math
import operator

from .expressions import Axis, Const, Op, as_index, op, shortcuts
from .scalars import BOOL, INDEX, dtype_bounds, intervals

ONE = as_index(1)


def known(expr):
    """The int or bool that an expression always is, or None."""
    low, high = expr.bounds or (0, 1)
    return low if low == high else None


def piece_of(index, axis, again=False):
    """(n, rest) of an index `axis * n + rest`, if the rest is in 0 .. n - 1; or None.

    No two steps of a loop over the axis have one of these indices both.

    Args:
      again: whether the last steps may have some of those before them, too, as of
        `min(axis * 32, 68) + rest`.
    """
    if index is axis:
        return 1, as_index(0)
    start, rest = index, as_index(0)
    if isinstance(index, Op) and index.name == "add":
        start, rest = index.args
    if again and isinstance(start, Op) and start.name == "min":
        start = start.args[0] if known(start.args[1]) is not None else start
    if not (isinstance(start, Op) and start.name == "mul" and start.args[0] is axis):
        return None
    size, (low, high) = known(start.args[1]), rest.bounds
    return (size, rest) if size and low >= 0 and high < size else None


def wrapped(value):
    """The 64-bit constant that arithmetic modulo 2**64 makes of an int."""
    return Const((value + 2**63) % 2**64 - 2**63, INDEX)


def fold_add(x, y):
    """0 vanishes; constants move right and meet: (x + c1) + c2 is x + (c1 + c2)."""
    if isinstance(x, Const) and isinstance(y, Const):
        return wrapped(x.value + y.value)
    if known(x) == 0 or known(y) == 0:
        return y if known(x) == 0 else x
    return gathered("add", x, y) or with_whole(x, y)


def gathered(name, x, y):
    """A sum or a product with its constants at the right, as one."""
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(y, Const) and isinstance(x, Op) and x.name == name:
        first, second = x.args
        if isinstance(second, Const):
            return op(name, first, op(name, second, y))
    return Op(name, (x, y), INDEX) if isinstance(y, Const) else None


def fold_sub(x, y):
    if x is y:
        return Const(0, INDEX)
    return op("add", x, wrapped(-y.value)) if isinstance(y, Const) else None


def fold_mul(x, y):
    if isinstance(x, Const) and isinstance(y, Const):
        return wrapped(x.value * y.value)
    if known(x) == 1 or known(y) == 1:
        return y if known(x) == 1 else x
    return gathered("mul", x, y)


def fold_floordiv(x, y):
    """Part by part: (i * 8 + j) // 4 is i * 2 + j // 4.

    And digit by digit: if j is less than 4, (i * 4 + j) // 12 is i // 3.  A digit is
    cut off last: i % 12 // 4 is i // 4 % 3; and i // 4 // 3 is i // 12.
    """
    if y.value == 1:
        return x
    number, step, size = digit_of(x)
    if size and size % y.value == 0:
        return op("mod", op("floordiv", x.args[0], y), as_index(size // y.value))
    if step > 1 and not size:
        return over(number, step * y.value)
    multiple, rest = split_multiple(x, y.value)
    if multiple:
        return op("add", multiple, op("floordiv", rest, y))
    if found := split_digits(x, y.value):
        high, _, low = found
        return op("floordiv", high, Const(y.value // low, INDEX))
    return None


def fold_mod(x, y):
    """What `floordiv` leaves: (i * 8 + j) % 4 is j % 4.

    If j is less than 4, (i * 4 + j) % 12 is i % 3 * 4 + j; and i % 12 % 4 is i % 4.
    """
    if x.bounds[0] >= 0 and x.bounds[1] < y.value:
        return x
    size = digit_of(x)[-1]
    if size and size % y.value == 0:
        return op("mod", x.args[0], y)
    multiple, rest = split_multiple(x, y.value)
    if multiple:
        return op("mod", rest, y)
    if found := split_digits(x, y.value):
        high, rest, low = found
        high = op("mod", high, Const(y.value // low, INDEX))
        return op("add", op("mul", high, Const(low, INDEX)), rest)
    return None


def split_multiple(x, c):
    """(m, r) with x = m * c + r where that is plain to see; (None, x) otherwise."""
    parts = linear((x, 1)).items()
    high = [(e, n // c) for e, n in parts if n % c == 0 and e is not ONE]
    if not high:
        return None, x
    return sum_of(high), sum_of((e, n) for e, n in parts if n % c or e is ONE)


def split_digits(x, c):
    """(h, r, n) with x = h * n + r, where n divides c and r is 0 .. n - 1; or None."""
    parts = linear((x, 1)).items()
    for n in sorted({math.gcd(factor, c) for _, factor in parts} - {1}, reverse=True):
        rest = sum_of((e, factor) for e, factor in parts if factor % n)
        low, most = rest.bounds
        if 0 <= low and most < n:
            high = ((e, factor // n) for e, factor in parts if factor % n == 0)
            return sum_of(high), rest, n
    return None


def with_whole(x, y):
    """A sum in which a digit of a number meets another one, or None.

    Digits are looked for where reshapes have them: sums of users may be long.
    """
    if not (has_digit(x) and has_digit(y)):
        return None
    terms = linear((x, 1), (y, 1))
    found = joined_digits(terms)
    return sum_of(found.items()) if found is not terms else None


def has_digit(x, depth=4):
    """Whether a quotient or a remainder is a part of a sum."""
    if not isinstance(x, Op) or depth == 0:
        return False
    args = x.args if x.name in ("add", "mul") else ()
    found = x.name in ("floordiv", "mod")
    return found or any(has_digit(arg, depth - 1) for arg in args)


# ---- sums of indices


def linear(*pairs, whole=()):
    """{part: factor}: of what a sum of indices, each times a number, is the sum.

    No part is a sum or a multiple of another one, unless it is to stay whole; what is
    known is a multiple of `ONE`.
    """
    terms, todo = {}, list(reversed(pairs))
    while todo:
        index, factor = todo.pop()
        name = index.name if isinstance(index, Op) and index.dtype == INDEX else ""
        if isinstance(index, Const):
            terms[ONE] = terms.get(ONE, 0) + factor * index.value
        elif index in whole:
            terms[index] = terms.get(index, 0) + factor
        elif name in ("add", "sub"):
            first, second = index.args
            sign = 1 if name == "add" else -1
            todo += (second, sign * factor), (first, factor)
        elif name == "mul" and known(index.args[1]) is not None:
            todo.append((index.args[0], factor * known(index.args[1])))
        else:
            terms[index] = terms.get(index, 0) + factor
    return {part: factor for part, factor in terms.items() if factor}


def sum_of(terms):
    """The sum of parts, given pairs of each and its factor."""
    total = as_index(0)
    for part, factor in terms:
        total = op("add", total, op("mul", part, as_index(factor)))
    return total


def joined_digits(terms):
    """A sum in which digits of one number have met.

    `g // 12 * 12 + g % 12` is g: so the index of a reshaped array is a position.
    """
    digits = {digit_of(part): part for part in terms}
    for (g, step, size), part in digits.items():
        for (h, wide, more), other in digits.items():
            if not size or terms[other] != terms[part] * size:
                continue
            # The quotient of a sum may be a sum: (a * 1000 + i) // 10 is a * 100 + ...
            whole, pair = over(g, step), ((over(h, wide), size), (part, 1))
            if wide % size or linear((whole, 1)) != linear((over(h, wide // size), 1)):
                joined = joined_digits(linear(*pair)) if more else {part}
                whole = None if part in joined else sum_of(joined.items())
            if whole is not None:
                if more:
                    whole = op("mod", whole, as_index(size * more))
                rest = [(p, f) for p, f in terms.items() if p not in (part, other)]
                return joined_digits(linear(*rest, (whole, terms[part])))
    return terms


def digit_of(part):
    """(g, step, size) of `g // step % size`; size is None where nothing is cut off."""
    size, step = None, 1
    if isinstance(part, Op) and part.name == "mod":
        part, size = part.args[0], known(part.args[1])
    if isinstance(part, Op) and part.name == "floordiv":
        part, step = part.args[0], known(part.args[1])
    return part, step, size


def over(index, steps):
    return op("floordiv", index, as_index(steps)) if steps > 1 else index


# ---- choices


def within(expr):
    """What a `max` or `min` keeps in bounds, or None."""
    if type(expr) is not Op or expr.dtype != INDEX or expr.name not in ("max", "min"):
        return None
    pairs = expr.args, expr.args[::-1]
    return next((x for x, y in pairs if type(y) is Const or type(x) is Axis), None)


def fold_max(x, y):
    """Whichever cannot be the smaller one."""
    if x is y or x.bounds[0] >= y.bounds[1]:
        return x
    return y if y.bounds[0] >= x.bounds[1] else None


def fold_min(x, y):
    if x is y or x.bounds[1] <= y.bounds[0]:
        return x
    return y if y.bounds[1] <= x.bounds[0] else None


def fold_and(x, y):
    """A condition that always holds vanishes, and of an integer one of all bits."""
    every_bit = 1 if x.dtype == BOOL else -1
    for a, b in ((x, y), (y, x)):
        if known(a) == every_bit:
            return b
    return x if x is y else None


def fold_select(condition, if_true, if_false):
    """What is chosen anyway; of True and False the condition itself."""
    if if_true.dtype == BOOL and known(if_true) == 1 and known(if_false) == 0:
        return condition
    if known(condition) is not None:
        return if_true if known(condition) else if_false
    return if_true if if_true is if_false else None


# comparison -> whether it answers for `max(x, c)` what it does for x if c is at the
# other side of the limit: c < limit, or c <= limit.
beyond_limit = {"lt": operator.lt, "ge": operator.lt, "le": operator.le,
                "gt": operator.le}  # fmt: skip


def fold_comparison(name, x, limit):
    """A bound that the answer does not depend on: min(x, 9) < 2 where x < 2.  And the
    digits that it does not: i * 8 + j < 16 where i < 2, if j is less than 8."""
    end = known(limit)
    if end is None or not isinstance(x, Op) or x.dtype is not INDEX:
        return None
    if x.name == "add":
        more = int(name in ("le", "gt"))
        high, _, size = split_digits(x, end + more) or (None, None, 1)
        first = size > 1 and Const((end + more) // size - more, INDEX)
        return op(name, high, first) if first else None
    if x.name not in ("max", "min"):
        return None
    inner, bound = x.args
    if (bound := known(bound)) is None:
        return None
    below = beyond_limit[name](bound, end)
    return op(name, inner, limit) if below == (x.name == "max") else None


def fold_convert(x):
    """An index that was made a shorter integer, in which it fits, and comes back."""
    if isinstance(x, Op) and x.name == "convert" and x.args[0].dtype == INDEX:
        (low, high), room = x.args[0].bounds, dtype_bounds(x.dtype)
        if room and room[0] <= low and high <= room[1]:
            return x.args[0]
    return None


folds = {
    "add": fold_add,
    "sub": fold_sub,
    "mul": fold_mul,
    "floordiv": fold_floordiv,
    "mod": fold_mod,
    "max": fold_max,
    "min": fold_min,
    "and": fold_and,
    "select": fold_select,
    "convert": fold_convert,
    **{name: functools.partial(fold_comparison, name) for name in beyond_limit},
}


def shorter_index(expr):
    """What an operation on indices or conditions always is, or something shorter."""
    dtype = expr.dtype
    if not isinstance(expr, Op):
        return None
    if dtype is not INDEX and dtype is not BOOL and expr.name != "select":
        return None
    if expr.name in intervals and known(expr) is not None:
        return Const(known(expr), expr.dtype)
    return folds[expr.name](*expr.args) if expr.name in folds else None


shortcuts.append(shorter_index)
