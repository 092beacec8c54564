"""Functions with steps before and after them, under JAX's `extend.linear_util`.

    @transformation2
    def doubled(f, *args): return [2 * y for y in f(*args)]

    wrap_init(f) -> a `WrappedFun`; doubled(wrapped).call_wrapped(*args) -> results
"""

from functools import lru_cache, partial

from ...trace.base import names as _names


class StoreException(Exception):
    """A `Store` is empty, or was filled before."""


class Store:
    """A place for one value, which a transformation leaves there."""

    def __init__(self):
        self.full, self.value = False, None

    def store(self, value):
        self.full, self.value = True, value

    def __call__(self):
        if not self.full:
            raise StoreException("Store empty")
        return self.value


class WrappedFun:
    """A function of flat arguments, and what has been put around it."""

    def __init__(self, call, f, params, debug_info=None):
        self.call, self.f, self.params = call, f, params
        self.debug_info, self.__name__ = debug_info, getattr(f, "__name__", "<unnamed>")

    def call_wrapped(self, *args, **kwargs):
        return self.call(*args, **{**self.params, **kwargs})

    def wrap(self, call):
        """The same function with `call` around what there is."""
        return WrappedFun(call, self.f, {}, self.debug_info)


def wrap_init(f, params=None, *, debug_info=None):
    """A `WrappedFun` of a function."""
    return WrappedFun(f, f, params or {}, debug_info)


def transformation(gen):
    """A decorator for generators: args -> (args, kwargs) of f; f's result -> result."""

    def call(f, given, *args, **kwargs):
        steps = gen(*given, *args, **kwargs)
        inner, inner_kwargs = next(steps)
        return steps.send(f.call_wrapped(*inner, **inner_kwargs))

    return lambda f, *given: f.wrap(partial(call, f, given))


def transformation_with_aux(gen):
    """As `transformation`; the generator gives (result, aux): -> (function, aux)."""

    def call(f, store, given, *args, **kwargs):
        steps = gen(*given, *args, **kwargs)
        inner, inner_kwargs = next(steps)
        result, aux = steps.send(f.call_wrapped(*inner, **inner_kwargs))
        store.store(aux)
        return result

    def wrap(f, *given):
        store = Store()
        return f.wrap(partial(call, f, store, given)), store

    return wrap


def transformation2(fun):
    """A decorator for functions: fun(f, *given, *args) -> result."""
    return lambda f, *given: f.wrap(partial(fun, f.call_wrapped, *given))


def transformation_with_aux2(fun):
    """As `transformation2` for fun(f, store, *given, *args): -> (function, aux)."""

    def wrap(f, *given):
        store = Store()
        return f.wrap(partial(fun, f.call_wrapped, store, *given)), store

    return wrap


def merge_linear_aux(aux1, aux2):
    """The value of the store that is full: -> (whether it is the first, value)."""
    return (True, aux1()) if aux1.full else (False, aux2())


def cache(call):
    """Remember the results of a function of hashable arguments."""
    return lru_cache(maxsize=None)(call)


_names.publish(globals(), """
    StoreException WrappedFun cache merge_linear_aux transformation transformation2
    transformation_with_aux transformation_with_aux2 wrap_init
""")
