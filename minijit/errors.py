"""The public names of minijit's exceptions, spelled as in `jax.errors`."""

from .trace.base import names as _names
from .trace.base.errors import (
    ConcretizationTypeError as ConcretizationTypeError, JAXIndexError as JAXIndexError,
    JaxprTypeError as JaxprTypeError, JaxRuntimeError as JaxRuntimeError,
    JAXTypeError as JAXTypeError, KeyReuseError as KeyReuseError,
    MinijitError as MinijitError,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    TracerArrayConversionError as TracerArrayConversionError,
    TracerBoolConversionError as TracerBoolConversionError,
    TracerIntegerConversionError as TracerIntegerConversionError,
    UnexpectedTracerError as UnexpectedTracerError,
)

_names.publish(globals())
