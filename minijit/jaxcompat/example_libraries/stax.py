"""Networks out of pairs of functions, as in `jax.example_libraries.stax`.

    init, apply = stax.serial(stax.Dense(64), stax.Relu, stax.Dense(10))
    shape, params = init(random.key(0), (-1, 784))
    logits = apply(params, images)

A layer is a pair:

    init(key, input_shape) -> (output_shape, params)
    apply(params, inputs, rng=key) -> outputs

Constructors of layers are written in CamelCase, and so are layers without options.
"""

import functools
import math
import operator

import numpy as np

from ... import lax, numpy as jnp, random
from ...nn import (
    elu, gelu, leaky_relu, log_softmax, relu, selu, sigmoid, softmax, softplus,
    standardize,
)
from ...nn.initializers import glorot_normal, normal, ones, zeros
from ...trace.api.stages import ShapeDtypeStruct, eval_shape
from ...trace.base import names as _names

glorot, randn, logsoftmax = glorot_normal, normal, log_softmax

glorot_weights, small_bias, tiny_bias = glorot_normal(), normal(), normal(1e-6)


def shape_after(function, *shapes):
    """The shape of a function's result for float32 arrays of these shapes."""
    args = [ShapeDtypeStruct(tuple(shape), np.dtype("float32")) for shape in shapes]
    return eval_shape(function, *args).shape


def without_params(apply):
    """A layer that has no parameters and keeps the shape."""
    return (lambda rng, shape: (shape, ())), lambda params, x, **kwargs: apply(x)


# ---- Layers with weights


def Dense(out_dim, W_init=glorot_weights, b_init=small_bias):
    """A layer x @ W + b along the last axis; parameters (W, b)."""

    def init(rng, input_shape):
        k1, k2 = random.split(rng)
        W, b = W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,))
        return (*input_shape[:-1], out_dim), (W, b)

    def apply(params, inputs, **kwargs):
        W, b = params
        return jnp.dot(inputs, W) + b

    return init, apply


def convolution_layer(
    convolve, dimension_numbers, out_chan, filter_shape, strides=None, padding="VALID",
    W_init=None, b_init=tiny_bias,
):  # fmt: skip
    """A layer convolve(x, W, strides, padding) + b; parameters (W, b).

    Args:
      dimension_numbers: three strings such as ("NHWC", "HWIO", "NHWC"): what each axis
        of the input, of the weights and of the output is.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def run(inputs, W):
        return convolve(
            inputs, W, strides, padding, dimension_numbers=dimension_numbers
        )

    def init(rng, input_shape):
        window = iter(filter_shape)
        sizes = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel = tuple(sizes[c] if c in sizes else next(window) for c in rhs_spec)
        bias = tuple(out_chan if c == "C" else 1 for c in out_spec)
        # The number of examples may be unknown, which is written as -1.
        known = tuple(1 if n < 0 else n for n in input_shape)
        shape = list(shape_after(run, known, kernel))
        if input_shape[lhs_spec.index("N")] < 0:
            shape[out_spec.index("N")] = input_shape[lhs_spec.index("N")]
        k1, k2 = random.split(rng)
        return tuple(shape), (W_init(k1, kernel), b_init(k2, bias))

    def apply(params, inputs, **kwargs):
        W, b = params
        return run(inputs, W) + b

    return init, apply


GeneralConv = functools.partial(convolution_layer, lax.conv_general_dilated)
# With strides on the output.
GeneralConvTranspose = functools.partial(convolution_layer, lax.conv_transpose)
image_axes = "NHWC", "HWIO", "NHWC"
Conv = functools.partial(GeneralConv, image_axes)
ConvTranspose = functools.partial(GeneralConvTranspose, image_axes)
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis=(0, 1, 2), epsilon=1e-5, center=True, scale=True, beta_init=zeros,
    gamma_init=ones,
):  # fmt: skip
    """A layer that standardizes over some axes, then scales by gamma and adds beta.

    Args:
      axis: an int or several.
      center, scale: whether there is a beta, and a gamma; parameters (beta, gamma),
        with an empty tuple for what there is not.
    """
    axis = (axis,) if jnp.isscalar(axis) else axis

    def init(rng, input_shape):
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axis)
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        return input_shape, (beta, gamma_init(k2, shape) if scale else ())

    def apply(params, x, **kwargs):
        beta, gamma = params
        spread = tuple(None if i in axis else slice(None) for i in range(jnp.ndim(x)))
        z = standardize(x, axis, epsilon=epsilon)
        z = gamma[spread] * z if scale else z
        return z + beta[spread] if center else z

    return init, apply


# ---- Layers without weights


def elementwise(fun, **fun_kwargs):
    """A layer that applies a function of arrays, with options."""
    return without_params(lambda x: fun(x, **fun_kwargs))


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def with_ones(sizes, axes):
    """Sizes of the axes of an image, with ones at the places of the other axes."""
    for i in sorted(axes):
        sizes = (*sizes[:i], 1, *sizes[i:])
    return sizes


def pooling(reducer, init_val, is_mean=False):
    """The constructor of layers that reduce windows."""

    def Pool(window_shape, strides=None, padding="VALID", spec=None):
        """A layer that reduces each window of an image to one value.

        Args:
          window_shape, strides: of the axes of the image, without examples, channels.
          spec: a string such as "NHWC" that says which axis is which.
        """
        rank = len(window_shape)
        # The axes of examples and channels: by default the outermost ones.
        others = (spec.index("N"), spec.index("C")) if spec else (0, rank + 1)
        window = with_ones(tuple(window_shape), others)
        steps = with_ones(tuple(strides or (1,) * rank), others)

        def reduce(x):
            return lax.reduce_window(x, init_val, reducer, window, steps, padding)

        def init(rng, input_shape):
            known = tuple(1 if n < 0 else n for n in input_shape)
            shape = shape_after(reduce, known)
            pairs = zip(shape, input_shape, strict=True)
            return tuple(n if given >= 0 else given for n, given in pairs), ()

        def apply(params, inputs, **kwargs):
            out = reduce(inputs)
            if not is_mean:
                return out
            # At the borders a window may reach into the padding, which does not count.
            image = [1 if i in others else n for i, n in enumerate(inputs.shape)]
            return out / reduce(jnp.ones(image, inputs.dtype))

        return init, apply

    return Pool


MaxPool = pooling(lax.max, -np.inf)
SumPool = pooling(lax.add, 0.0)
AvgPool = pooling(lax.add, 0.0, is_mean=True)

# Each example as one long row.
Flatten = (
    lambda rng, shape: ((shape[0], math.prod(shape[1:])), ()),
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)
Identity = without_params(lambda x: x)


def Dropout(rate, mode="train"):
    """A layer that keeps each value with probability `rate`, and scales it up.

    Needs a key, as `rng=`, when it is applied; does nothing in another mode.
    """

    def apply(params, inputs, **kwargs):
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key "
                "argument. That is, instead of `apply_fun(params, inputs)`, call it "
                "like `apply_fun(params, inputs, rng)` where `rng` is a PRNG key (e.g. "
                "from `random.key`)."
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return (lambda rng, input_shape: (input_shape, ())), apply


# ---- Layers of several arrays


def FanOut(num):
    """A layer that hands on its input `num` times, as a list."""
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


# The sum of a list of arrays.
FanInSum = (
    lambda rng, shapes: (shapes[0], ()),
    lambda params, inputs, **kwargs: functools.reduce(operator.add, inputs),
)


def FanInConcat(axis=-1):
    """A layer that joins a list of arrays along an axis."""

    def init(rng, shapes):
        first, ax = list(shapes[0]), axis % len(shapes[0])
        first[ax] = sum(shape[ax] for shape in shapes)
        return tuple(first), ()

    return init, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


# ---- Layers of layers


def keys_for(rng, count):
    """A key for each of some layers, or None for each."""
    return (None,) * count if rng is None else random.split(rng, count)


def serial(*layers):
    """One layer after the other, as a layer; parameters: a list of theirs."""

    def init(rng, input_shape):
        params = []
        for layer_init, _ in layers:
            rng, layer_rng = random.split(rng)
            input_shape, param = layer_init(layer_rng, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params, inputs, rng=None, **kwargs):
        rngs = keys_for(rng, len(layers))
        for (_, f), param, key in zip(layers, params, rngs, strict=True):
            inputs = f(param, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers):
    """Layers side by side, as a layer: a list of inputs, a list of outputs."""

    def init(rng, shapes):
        rngs = random.split(rng, len(layers))
        triples = zip(layers, rngs, shapes, strict=True)
        results = [layer[0](key, shape) for layer, key, shape in triples]
        shapes, params = zip(*results, strict=True)
        return shapes, params

    def apply(params, inputs, rng=None, **kwargs):
        rngs = keys_for(rng, len(layers))
        rows = zip(layers, params, inputs, rngs, strict=True)
        return [f(p, x, rng=key, **kwargs) for (_, f), p, x, key in rows]

    return init, apply


def shape_dependent(make_layer):
    """A layer that is made only when its input's shape is known.

    Args:
      make_layer: shape -> layer.
    """
    return (
        lambda rng, shape: make_layer(shape)[0](rng, shape),
        lambda params, x, **kwargs: make_layer(x.shape)[1](params, x, **kwargs),
    )

__all__ = """
    AvgPool BatchNorm Conv Conv1DTranspose ConvTranspose Dense Dropout Elu Exp
    FanInConcat FanInSum FanOut Flatten Gelu GeneralConv GeneralConvTranspose Identity
    LeakyRelu LogSoftmax MaxPool Relu Selu Sigmoid Softmax Softplus SumPool Tanh
    elementwise elu gelu glorot glorot_normal jnp lax leaky_relu log_softmax logsoftmax
    normal ones parallel randn random relu selu serial shape_dependent sigmoid softmax
    softplus standardize zeros
""".split()
_names.front(globals(), __all__)
