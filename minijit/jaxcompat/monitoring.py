"""Events that libraries record, and who listens, under the names of `jax.monitoring`.

    register_event_listener(lambda event, **about: print(event))
    record_event("/my_library/step")
"""

from ..trace.base import names as _names

_kinds = ("event", "event_duration_secs", "event_time_span", "scalar")
_listeners: dict = {kind: [] for kind in _kinds}


def _tell(kind, event, values, about):
    for listener in list(_listeners[kind]):
        listener(event, *values, **about)


def record_event(event, **kwargs):
    """Tell the listeners of an event."""
    _tell("event", event, (), kwargs)


def record_event_duration_secs(event, duration, **kwargs):
    """Tell the listeners how long something took."""
    _tell("event_duration_secs", event, (duration,), kwargs)


def record_event_time_span(event, start_time, end_time, **kwargs):
    """Tell the listeners when something began and ended."""
    _tell("event_time_span", event, (start_time, end_time), kwargs)


def record_scalar(event, value, **kwargs):
    """Tell the listeners a number."""
    _tell("scalar", event, (value,), kwargs)


def _registering(kind):
    def register(callback):
        _listeners[kind].append(callback)

    def unregister(callback):
        _listeners[kind].remove(callback)

    return register, unregister


register_event_listener, unregister_event_listener = _registering("event")
register_event_duration_secs_listener, unregister_event_duration_listener = (
    _registering("event_duration_secs")
)
register_event_time_span_listener, unregister_event_time_span_listener = _registering(
    "event_time_span"
)
register_scalar_listener, unregister_scalar_listener = _registering("scalar")


def clear_event_listeners():
    """Nobody listens any more."""
    for listeners in _listeners.values():
        listeners.clear()


__all__ = [name for name in globals() if "event" in name or "scalar" in name]
__all__ = [name for name in __all__ if not name.startswith("_")]
_names.front(globals(), __all__)
