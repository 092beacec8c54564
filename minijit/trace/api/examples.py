"""Examples of the functions that people use most: `grad?` shows them.

`explaining` adds them to the docstrings, by the names that users know: so those that a
chapter shows stay short.  `tests/test_docstrings.py` runs them.
"""

import re

# Examples, with empty lines between.  The name of a function stands above its example,
# unless that is the first one that is called there.
TEXT = """
    >>> mj.grad(lambda x: x ** 3)(2.0)
    Array(12., dtype=float32, weak_type=True)
    >>> mj.grad(lambda p: (p["w"] * 3).sum() + p["b"])({"w": jnp.ones(2), "b": 1.0})
    {'b': Array(1., dtype=float32, weak_type=True), 'w': Array([3., 3.], dtype=float32)}

    >>> value, slope = mj.value_and_grad(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)

    >>> y, slope = mj.jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> float(y), float(slope)
    (9.0, 6.0)

    >>> y, pull_back = mj.vjp(lambda x, w: x * w, 2.0, 5.0)
    >>> [float(cotangent) for cotangent in pull_back(1.0)]
    [5.0, 2.0]

    >>> y, f_jvp = mj.linearize(lambda x: x * x, 3.0)
    >>> float(f_jvp(1.0)), float(f_jvp(10.0))
    (6.0, 60.0)

    >>> mj.jacfwd(lambda x: x * x)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)

    >>> mj.jacrev(lambda x: jnp.array([x[0] * x[1], x[0]]))(jnp.array([2.0, 3.0]))
    Array([[3., 2.],
           [1., 0.]], dtype=float32)

    >>> mj.hessian(lambda x: x[0] ** 2 * x[1])(jnp.array([1.0, 2.0]))
    Array([[4., 2.],
           [2., 0.]], dtype=float32)

    >>> mj.vmap(jnp.dot)(jnp.ones((2, 3)), jnp.arange(6.0).reshape(2, 3))
    Array([ 3., 12.], dtype=float32)
    >>> mj.vmap(lambda x, w: x * w, in_axes=(0, None))(jnp.arange(3), 10)
    Array([ 0, 10, 20], dtype=int32)

    >>> f = mj.jit(lambda x: jnp.sin(x) * 0 + x)
    >>> f(jnp.arange(3.0))
    Array([0., 1., 2.], dtype=float32)
    >>> print(f.lower(1.0).as_text())
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = mul b 0.0:f32[]
        d:f32[] = add c a
      in (d,) }

    >>> mj.make_jaxpr(lambda x: x * 2 + 1)(jnp.ones(3))
    { lambda ; a:f32[3]. let
        b:f32[3] = mul a 2.0:f32[]
        c:f32[3] = add b 1.0:f32[]
      in (c,) }

    >>> f = mj.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> mj.grad(f)(0.0)
    Array(1., dtype=float32, weak_type=True)

    >>> mj.eval_shape(lambda x, w: x @ w, jnp.ones((2, 3)), jnp.ones((3, 4)))
    ShapeDtypeStruct(shape=(2, 4), dtype=float32)

    >>> mj.device_get({"w": jnp.arange(3)})
    {'w': array([0, 1, 2], dtype=int32)}

    >>> mj.block_until_ready(jnp.arange(3) * 2)
    Array([0, 2, 4], dtype=int32)

tree_util.tree_map
    >>> mj.tree.map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"a": 10, "b": [20, 30]})
    {'a': 11, 'b': [22, 33]}

tree_util.tree_leaves
    >>> mj.tree.leaves({"b": 1, "a": [2, 3]})
    [2, 3, 1]

tree_util.tree_flatten
    >>> leaves, structure = mj.tree.flatten({"a": 1, "b": (2, 3)})
    >>> leaves, structure
    ([1, 2, 3], PyTreeDef({'a': *, 'b': (*, *)}))

tree_util.tree_unflatten
    >>> leaves, structure = mj.tree.flatten({"a": 1, "b": (2, 3)})
    >>> mj.tree.unflatten(structure, [10, 20, 30])
    {'a': 10, 'b': (20, 30)}

    >>> lax.scan(lambda total, x: (total + x, total), jnp.int32(0), jnp.arange(4))
    (Array(6, dtype=int32), Array([0, 0, 1, 3], dtype=int32))

    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10)
    Array(11, dtype=int32, weak_type=True)

    >>> lax.switch(2, [lambda x: x, lambda x: -x, lambda x: x * x], 5)
    Array(25, dtype=int32, weak_type=True)

    >>> lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int32, weak_type=True)

    >>> lax.fori_loop(0, 4, lambda i, x: x + i, 10)
    Array(16, dtype=int32, weak_type=True)

    >>> lax.map(lambda x: x * x, jnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)

    >>> lax.associative_scan(jnp.maximum, jnp.array([3, 1, 4, 1, 5]))
    Array([3, 3, 4, 4, 5], dtype=int32)

lax.stop_gradient
    >>> mj.grad(lambda x: x * lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)

    >>> lax.dynamic_slice(jnp.arange(10), (3,), (4,))
    Array([3, 4, 5, 6], dtype=int32)

    >>> lax.top_k(jnp.array([3, 1, 4, 1, 5]), 2)
    [Array([5, 4], dtype=int32), Array([4, 2], dtype=int32)]

random.key
    >>> random.normal(random.key(0), (2,)).shape
    (2,)

    >>> k1, k2 = random.split(random.key(0))
    >>> random.randint(k1, (3,), 0, 10).shape
    (3,)

    >>> random.normal(random.key(0), (2, 3)).shape
    (2, 3)

    >>> x = random.uniform(random.key(0), (1000,), minval=-1.0)
    >>> bool((x >= -1).all() and (x < 1).all())
    True

    >>> sorted(random.permutation(random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]

    >>> random.choice(random.key(0), jnp.array([7, 8, 9]), (2,)).shape
    (2,)

    >>> random.bernoulli(random.key(0), 0.5, (3,)).dtype
    dtype('bool')

    >>> jnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)

    >>> jnp.asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)

    >>> jnp.zeros((2, 3))
    Array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)

    >>> jnp.ones(3, dtype=jnp.int32)
    Array([1, 1, 1], dtype=int32)

    >>> jnp.arange(2, 10, 3)
    Array([2, 5, 8], dtype=int32)

    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)

    >>> jnp.where(jnp.array([True, False, True]), jnp.arange(3), -1)
    Array([ 0, -1,  2], dtype=int32)

    >>> jnp.concatenate([jnp.zeros(2), jnp.ones(1)])
    Array([0., 0., 1.], dtype=float32)

    >>> jnp.stack([jnp.arange(2), jnp.arange(2)], axis=1)
    Array([[0, 0],
           [1, 1]], dtype=int32)

    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)

    >>> jnp.transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)

    >>> jnp.sum(jnp.arange(6).reshape(2, 3), axis=1)
    Array([ 3, 12], dtype=int32)

    >>> jnp.mean(jnp.array([[1.0, 3.0], [5.0, 7.0]]), axis=0)
    Array([3., 5.], dtype=float32)

    >>> jnp.max(jnp.array([[1, 5], [3, 2]]), axis=1)
    Array([5, 3], dtype=int32)

    >>> jnp.argmax(jnp.array([3, 7, 5]))
    Array(1, dtype=int32)

    >>> jnp.cumsum(jnp.arange(5))
    Array([ 0,  1,  3,  6, 10], dtype=int32)

    >>> jnp.dot(jnp.arange(3), jnp.arange(3))
    Array(5, dtype=int32)

    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones((3, 1)))
    Array([[3.],
           [3.]], dtype=float32)

    >>> jnp.einsum("bi,bj->bij", jnp.ones((4, 2)), jnp.ones((4, 3))).shape
    (4, 2, 3)

    >>> jnp.maximum(jnp.array([-1, 2]), 0)
    Array([0, 2], dtype=int32)

    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)

    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)

    >>> jnp.argsort(jnp.array([30, 10, 20]))
    Array([1, 2, 0], dtype=int32)

    >>> jnp.expand_dims(jnp.ones(3), 0).shape
    (1, 3)

    >>> jnp.broadcast_to(jnp.arange(3), (2, 3))
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)

    >>> nn.relu(jnp.array([-2.0, 3.0]))
    Array([0., 3.], dtype=float32)

    >>> nn.softmax(jnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)

    >>> nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)

    >>> nn.sigmoid(jnp.array([0.0]))
    Array([0.5], dtype=float32)

    >>> f = mj.custom_jvp(lambda x: x * x)
    >>> _ = f.defjvp(lambda primals, tangents: (f(*primals), 100.0 * tangents[0]))
    >>> mj.jvp(f, (3.0,), (1.0,))[1]
    Array(100., dtype=float32, weak_type=True)

    >>> f = mj.custom_vjp(lambda x: x * x)
    >>> f.defvjp(lambda x: (f(x), None), lambda kept, ct: (100.0 * ct,))
    >>> mj.grad(f)(3.0)
    Array(100., dtype=float32, weak_type=True)

    >>> report = mj.explain(lambda x: jnp.sin(x).sum(1), jnp.ones((10, 4)))
    >>> len(report.kernels), report.traffic_bytes  # print(report) has all of it
    (1, 200)

report.why_not_fused
    >>> f = lambda x: jnp.exp(x - x.max())
    >>> report = mj.explain(f, jnp.ones((300, 4)))
    >>> print(report.why_not_fused(0, 1).reason)  # by numbers or names of steps
    kernel_0 is a total, no more: no loop is around all of it

    >>> steps = mj.steps(lambda x: jnp.sin(x) + jnp.sin(x))(jnp.ones(3))
    >>> print(steps["simplify"].text)  # print(steps) lists them all
    { lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = add b b in (c,) }

    >>> stages = mj.stages(lambda x: jnp.sin(x), 2.0)  # print(stages) lists them all
    >>> print(stages["transpose"])
    { lambda ; a:f32[] b:f32[]. let c:f32[] = mul b a in (c,) }

minijit.profile
    >>> f = mj.jit(lambda x: x * 2)
    >>> with mj.profile() as line:
    ...     y = f(jnp.ones(3)) + f(jnp.ones(3))
    >>> [(one.step.name, one.runs) for one in line.steps if one.program == "<lambda>"]
    [('kernel_0', 2)]
    >>> # print(line) has the times; line.roofline(), line.save("trace.json")

minijit.log_kernels
    >>> f = mj.jit(lambda x: x * 2)
    >>> with mj.log_kernels():  # doctest: +ELLIPSIS
    ...     y = f(jnp.ones(3))
    <lambda> kernel_0 ...in0: f32[3] -> out0: f32[3]...
"""


def by_name(text):
    """{name: its example}."""
    found = {}
    for example in text.strip("\n").split("\n\n"):
        name, _, rest = example.partition("\n")
        if name.startswith(" "):
            called = re.search(r"\b(mj|jnp|lax|nn|random)(\.\w+)", name)
            name, rest = called[0].replace("mj", "minijit"), example
        found[name] = f"{rest}\n"
    return found


examples = by_name(TEXT)


def with_example(documentation, name):
    """A docstring with the example of the function that users know by a name."""
    if not documentation or name not in examples:
        return documentation
    return f"{documentation.rstrip()}\n\n    Example:\n{indented(examples[name])}    "


def indented(text):
    """A text as it stands in a docstring."""
    return "".join(f"    {line}\n" for line in text.rstrip("\n").split("\n"))
