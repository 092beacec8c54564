"""The public names of minijit's exceptions, spelled as in `jax.errors`."""

from .trace.errors import (
    ConcretizationTypeError as ConcretizationTypeError,
    JaxprTypeError as JaxprTypeError,
    KeyReuseError as KeyReuseError,
    MinijitError as MinijitError,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    TracerArrayConversionError as TracerArrayConversionError,
    TracerBoolConversionError as TracerBoolConversionError,
    TracerIntegerConversionError as TracerIntegerConversionError,
    UnexpectedTracerError as UnexpectedTracerError,
)
