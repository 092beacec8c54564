"""Functions of the C library, for devices that have none: as LLVM IR.

    declare double @sin(double)         # what a kernel's module asks for
    define double @sin(double %x) ...   # what `with_device_functions` puts there

The waves are asked for beyond 2**30 only: there an argument is reduced with 1,344 bits
of 2/pi, as integers that LLVM lets be so wide (Payne and Hanek, 1983).  A remainder is
a long division, bit by bit.

Others are forms in float64, in operations that a device has.  A CPU calls the C library
for these: it is as good as arithmetic can be.  Errors are below four units in the last
place; `lgamma` of negative numbers has them as if its result were at least 1, for it
has zeros there.
"""

import functools
import re

import numpy as np

from ...compile.numbers.coefficients import LN2_HIGH, LN2_LOW
from ...compile.numbers.scalar_forms import (
    FLOAT64, fma, in_double, limited, muladd, polynomial, scalar_forms, where,
)
from ...compile.numbers.vector_functions import lgamma, special_power
from ...compile.numbers.vector_math import (
    LN2, expm1_small, less_ln2, mantissa_and_exponent, power_of_two, special_log,
    whole_part,
)
from ...compile.numbers.vector_waves import cos_small, sin_of_quadrant, sin_small
from ..llvm.functions import (
    ATTRIBUTES, DOUBLE_TO_HALF, define, function_name, function_text, numbered,
)
from ..llvm.text import LLVMWriter

def log_in_two(x):
    """(h, l) with log(x) = h + l, for x > 0: together 64 bits or more are right.

    By the series of atanh(q), q = (m - 1) / (m + 1), of which the first two terms are
    computed with what rounding loses.
    """
    tiny = x < 2.0**-1022
    x = where(tiny, x * 2.0**54, x)
    m, e = mantissa_and_exponent(x)
    e = where(tiny, e - 54.0, e)
    f, sum_ = m - 1.0, m + 1.0
    q = f / sum_
    q_low = (fma(-q, sum_, f) - q * (m - (sum_ - 1.0))) / sum_
    r = q * q
    r_low = fma(q, q, -r) + 2.0 * q * q_low
    t = r * q
    t_low = fma(r, q, -t) + (r * q_low + r_low * q)
    third = x.like(1 / 3)
    u = t * third
    # A third is 1.85e-17 more than its float.
    u_low = fma(t, third, -u) + (t * (1 / 3 / 2**54) + t_low * third)
    rest = t * r * polynomial(r, *(1 / (2 * n + 5) for n in range(10, -1, -1)))
    s = q + u
    s_low = ((q - s) + u) + (q_low + (u_low + rest))
    whole, double = e * LN2_HIGH[FLOAT64], s + s
    high = whole + double
    low = ((whole - high) + double) + (s_low + s_low + e * LN2_LOW[FLOAT64])
    return special_log(x, high), low


def power(x, y):
    """exp(y log |x|); the cases of the C standard."""
    size = abs(x)
    high, low = log_in_two(size)
    product = y * high
    lost = fma(y, high, -product) + y * low
    lost = where(abs(product) < 1000.0, lost, 0.0)
    product = limited(product, -746.0, 710.0)
    k = whole_part(muladd(product, product.like(1 / LN2), -0.5))
    # In two steps, the subnormal numbers are reached.
    half = whole_part(k * 0.5)
    result = (expm1_small(less_ln2(product, k) + lost) + 1.0) * power_of_two(half)
    result = result * power_of_two(k - half)
    return special_power(x, y, result)


scalar_forms |= {"device_lgamma": in_double(lgamma), "device_pow": in_double(power)}
# name -> how many arguments it has.
device_forms = dict(lgamma=1, pow=2)

# 2/pi, as an integer of so many bits behind the point.
BITS = 1280


def two_over_pi():
    """floor(2**BITS * 2 / pi), by Machin's formula for pi in integers."""
    one = 1 << (BITS + 64)

    def arctan_of_inverse(n):
        total = term = one // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return ((one * one * 2) // pi) >> 64


def quarter_wave(r, n, dtype):
    """sin(r + n pi/2) for a small r."""
    zero = r * 0.0
    return sin_of_quadrant(n, sin_small(r, zero), cos_small(r, zero))


scalar_forms |= {"quarter_wave": quarter_wave}
WAVE = ("quarter_wave", (FLOAT64, np.dtype("uint64")), FLOAT64)

WAVES = """
define internal double @huge_wave(double %x, i64 %quarters) noinline {
  %bits = bitcast double %x to i64
  %exponent = lshr i64 %bits, 52
  %e = and i64 %exponent, 2047
  %low = and i64 %bits, 4503599627370495
  %m = or i64 %low, 4503599627370496
  %nan = icmp eq i64 %e, 2047
  %limited = select i1 %nan, i64 1054, i64 %e
  ; x * 2/pi = m * P * 2**(e - 1075 - BITS); 126 bits behind its point, and 64 more.
  %down = sub i64 FIRST, %limited
  %wide = zext i64 %down to i1344
  %moved = lshr i1344 TWO_OVER_PI, %wide
  %part = trunc i1344 %moved to i256
  %m256 = zext i64 %m to i256
  %product = mul i256 %part, %m256
  %shifted = lshr i256 %product, 64
  %r128 = trunc i256 %shifted to i128
  %rounding = add i128 %r128, HALF
  %quarter = lshr i128 %rounding, 126
  %n = trunc i128 %quarter to i64
  %fraction = shl i128 %r128, 2
  %high128 = lshr i128 %fraction, 64
  %high = trunc i128 %high128 to i64
  %rest = trunc i128 %fraction to i64
  %high_f = sitofp i64 %high to double
  %rest_f = uitofp i64 %rest to double
  %a = fmul double %high_f, 0x3bf0000000000000
  %b = fmul double %rest_f, 0x37f0000000000000
  %f = fadd double %a, %b
  %r = fmul double %f, 0x3ff921fb54442d18
  ; Of a negative x all is mirrored.
  %sign = icmp slt i64 %bits, 0
  %r_minus = fneg double %r
  %n_minus = sub i64 0, %n
  %r_here = select i1 %sign, double %r_minus, double %r
  %n_here = select i1 %sign, i64 %n_minus, i64 %n
  %turned = add i64 %n_here, %quarters
  %wave = call double @WAVE(double %r_here, i64 %turned)
  %result = select i1 %nan, double 0x7ff8000000000000, double %wave
  ret double %result
}
define internal double @sin(double %x) {
  %y = call double @huge_wave(double %x, i64 0)
  ret double %y
}
define internal double @cos(double %x) {
  %y = call double @huge_wave(double %x, i64 1)
  ret double %y
}
define internal double @tan(double %x) {
  %s = call double @huge_wave(double %x, i64 0)
  %c = call double @huge_wave(double %x, i64 1)
  %y = fdiv double %s, %c
  ret double %y
}
"""

# fmod: what is left of x after as many y as fit, y shifted to the left as far as x.
REMAINDER = """
define internal double @fmod(double %x, double %y) noinline {
entry:
  %ax = call double @llvm.fabs.f64(double %x)
  %ay = call double @llvm.fabs.f64(double %y)
  %infinite = fcmp ueq double %ax, 0x7ff0000000000000
  %zero = fcmp ueq double %ay, 0.0
  %bad = or i1 %infinite, %zero
  br i1 %bad, label %nan, label %grow
nan:
  %nothing = fsub double %x, %x
  %wrong = fdiv double %nothing, %nothing
  ret double %wrong
grow:
  %big = phi double [%ay, %entry], [%twice, %grow]
  %half = fmul double %ax, 0.5
  %more = fcmp ole double %big, %half
  %twice = fadd double %big, %big
  br i1 %more, label %grow, label %take
take:
  %left = phi double [%ax, %grow], [%next, %take]
  %step = phi double [%big, %grow], [%smaller, %take]
  %fits = fcmp oge double %left, %step
  %less = fsub double %left, %step
  %next = select i1 %fits, double %less, double %left
  %smaller = fmul double %step, 0.5
  %below = fcmp olt double %smaller, %ay
  %endless = fcmp oeq double %smaller, %step
  %last = or i1 %below, %endless
  br i1 %last, label %done, label %take
done:
  %result = call double @llvm.copysign.f64(double %next, double %x)
  ret double %result
}
"""
BESIDES = "llvm.fabs.f64(double)", "llvm.copysign.f64(double, double)"


def remainder():
    return REMAINDER, [f"declare double @{name}" for name in BESIDES], ()


@functools.cache
def waves():
    """`WAVES` with its numbers."""
    text = WAVES.replace("TWO_OVER_PI", str(two_over_pi()))
    text = text.replace("FIRST", str(BITS + 1075 - 190)).replace("HALF", str(1 << 125))
    return text.replace("WAVE", function_name(WAVE)), (), (WAVE,)


def of_float32(name, count):
    """The function of float32 numbers, by that of float64 numbers."""
    given = ", ".join(f"float %x{i}" for i in range(count))
    lines = [f"define internal float @{name}f({given}) {{"]
    lines += [f"  %y{i} = fpext float %x{i} to double" for i in range(count)]
    wide = ", ".join(f"double %y{i}" for i in range(count))
    lines += [
        f"  %wide = call double @{name}({wide})",
        "  %result = fptrunc double %wide to float",
        "  ret float %result",
        "}\n",
    ]
    return "\n".join(lines), (f"declare double @{name}(double)",), ()


def of_form(name):
    """A function that a form says: another name for `device_erf`."""
    dtypes = (FLOAT64,) * device_forms[name]
    writer = LLVMWriter()
    text = define((f"device_{name}", dtypes, FLOAT64), writer, name, "alwaysinline")
    return text, tuple(writer.declared), tuple(writer.used)


# name -> function of nothing: -> (text, declarations, keys of forms that it calls).
texts = {**dict.fromkeys(("sin", "cos", "tan"), waves), "fmod": remainder}
texts |= {
    f"{name}f": functools.partial(of_float32, name, 1 + (name == "fmod"))
    for name in tuple(texts)
}
texts |= {name: functools.partial(of_form, name) for name in device_forms}


def definition(what):
    """As a row of `texts`: of the key of a form, or of a line that declares."""
    if isinstance(what, tuple):
        return function_text(what, LLVMWriter)
    name = re.search(r"@([\w.]+)\(", what)[1]
    return (f"{what}\n", (), ()) if name.startswith("llvm.") else texts[name]()


def device_module(kernel):
    """The module of one kernel, with all functions that it calls: LLVM's text.

    Args:
      kernel: with `text`, `declared` and `used`, as `module_text` takes it.
    """
    # What the host's processor needs for halves, a device's does not.
    pieces, seen = {kernel.text: None}, {DOUBLE_TO_HALF}
    todo = [*kernel.declared, *kernel.used]
    while todo:
        what = todo.pop()
        if what not in seen:
            seen.add(what)
            text, declared, used = definition(what)
            pieces[text] = None
            todo += [*declared, *used]
    return numbered("\n".join([*pieces, ATTRIBUTES]))
