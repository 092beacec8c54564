"""Solutions to the tour out_of_one_machine.ipynb."""

import re

import minijit.numpy as jnp
from minijit import export, jit, lax
from minijit.stablehlo.arrays import rules
from minijit.trace.array import shape_rules
from minijit.trace.core import Primitive


def census(f, *args):
    text, counts = export(f)(*args).mlir_module(), {}
    for name in re.findall(r'= "?(?:stablehlo|chlo)\.(\w+)', text):
        counts[name] = counts.get(name, 0) + 1
    return counts


def check_census(census):
    """Count what stands between `= ` and the operands, with or without quotes."""
    x = jnp.ones((3, 3))
    assert census(jnp.tanh, x) == {"tanh": 1}
    assert census(lambda x: x @ x + x, x) == {"dot_general": 1, "add": 1}
    twice = jit(lambda x: jnp.sin(x) * x)
    assert census(lambda x: twice(twice(x)), x) == {"sine": 1, "multiply": 1}
    assert census(lax.erf, x) == {"erf": 1}


def divided(text, name, devices):
    head = next(line for line in text.splitlines() if "@main(" in line)
    found = re.search(rf"%{name}: tensor<((?:\d+x)+)\w[^,)]*>", head)
    shape = [int(n) for n in found[1].split("x") if n] if found else []
    if not shape or shape[0] % devices:
        raise ValueError(f"{name} cannot be divided by rows among {devices} devices")
    parts = ",".join(map(str, [devices] + [1] * (len(shape) - 1)))
    sharding = f'{{mhlo.sharding = "{{devices=[{parts}]<=[{devices}]}}"}}'
    return text.replace(head, head.replace(found[0], f"{found[0]} {sharding}"))


def check_divided(divided):
    """Only the line with @main names arguments; a scalar has no rows."""
    given = jnp.ones((8, 2)), jnp.ones(6), 3.0
    text = export(lambda x, y, z: (x * z, y * z))(*given).mlir_module()
    rows = '%x: tensor<8x2xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}'
    assert divided(text, "x", 4) == text.replace("%x: tensor<8x2xf32>", rows, 1)
    row = '%y: tensor<6xf32> {mhlo.sharding = "{devices=[3]<=[3]}"}'
    assert divided(text, "y", 3) == text.replace("%y: tensor<6xf32>", row, 1)
    for name, devices in (("y", 4), ("z", 1), ("q", 2)):
        try:
            divided(text, name, devices)
        except ValueError as error:
            assert name in str(error)
        else:
            raise AssertionError(f"{name} cannot be divided among {devices} devices")


def softsign_row(w, out, x):
    size = w.op("abs", [x], out)
    return w.same("divide", x, w.same("add", size, w.full(x.type, 1)))


def check_softsign_row(softsign_row):
    """|x| is `w.op("abs", [x], out)`; then add, then divide."""
    primitive = Primitive("softsign")
    shape_rules[primitive], rules[primitive] = lambda x: x, softsign_row
    text = export(lambda x: primitive.bind(x))(jnp.ones(3)).mlir_module()
    del shape_rules[primitive], rules[primitive]
    names = re.findall(r"stablehlo\.(\w+)", text)
    assert sorted(names) == ["abs", "add", "constant", "divide"]
    assert names[-1] == "divide"
    assert "stablehlo.divide %x, %" in text
