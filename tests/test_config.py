"""Flags: process, thread and block; the environment; the key for caches."""

import subprocess
import sys

import pytest
from harness import in_a_child, in_threads, refused

from minijit.trace.base.config import (
    Config, config, disable_jit, enable_x64, log_compiles,
)

pytestmark = pytest.mark.chapter(3)


def test_an_override_stays_in_its_thread():
    seen = []
    with enable_x64(True):
        in_threads(lambda: seen.append(config.enable_x64))
        assert config.enable_x64
    assert seen == [False]


def test_update_reaches_other_threads():
    seen = []
    config.update(name="jax_log_compiles", val=True)
    try:
        in_threads(lambda: seen.append(config.log_compiles))
        with log_compiles(False):
            assert not config.log_compiles
    finally:
        config.update("log_compiles", False)
    assert seen == [True]


def test_the_trace_key_depends_on_what_changes_traces_only():
    key = config.trace_key()
    with disable_jit():
        assert config.trace_key() == key
    with enable_x64(True):
        inside = config.trace_key()
        assert inside != key
        # An update inside the block must not carry the block's values out of it.
        config.update("log_compiles", False)
        assert config.trace_key() == inside
    assert config.trace_key() is key


def test_bad_names_and_values():
    with pytest.raises(AttributeError, match="Unrecognized config option: nope.*x64"):
        config.update("jax_nope", True)
    with pytest.raises(AttributeError, match="enable_x32. Did you.* of: enable_x64[?]"):
        config.update("jax_enable_x32", True)
    with pytest.raises(AttributeError, match="nope"):
        config.nope  # noqa: B018
    with pytest.raises(TypeError, match="enable_x64 must be a bool, got 'yes'"):
        config.update("jax_enable_x64", "yes")


def test_a_flag_defined_later():
    flags = Config()
    flags.define("shade", "grey", "a string", changes_traces=True)
    assert flags.shade == "grey" and flags.trace_key().values == ()
    before = flags.trace_key()
    flags.define("sheen", "matt", "another", changes_traces=True)
    # So what was traced before it is not traced again.
    assert flags.trace_key() is before
    with flags.override("shade", "red"):
        assert flags.trace_key().values == (("shade", "red"),)
        # Equal values are one key, which is hashed by its address.
        assert flags.trace_key() is flags.trace_key()
    flags.update("shade", "blue")
    assert flags.trace_key().values == (("shade", "blue"),)
    # Defining it again, as a notebook does when a cell runs twice, keeps its value.
    flags.define("shade", "grey", "a string", changes_traces=True)
    assert flags.shade == "blue" and flags.trace_key().values == (("shade", "blue"),)


def test_a_forked_process_has_a_lock_of_its_own():
    """Another thread, which is not there any more, may hold the parent's."""
    flags = Config()
    held = flags.making_keys
    in_a_child(lambda: flags.making_keys is not held)


@pytest.mark.parametrize("text, expected", [("1", "True"), ("false", "False")])
def test_the_environment_sets_a_flag(text, expected):
    code = "from minijit.trace.base.config import config; print(config.enable_x64)"
    assert in_a_fresh_process(code, text).stdout.strip() == expected


def test_the_environment_is_checked():
    result = in_a_fresh_process("import minijit.trace.base.config", "perhaps")
    assert "MINIJIT_ENABLE_X64 must be 0 or 1, got 'perhaps'" in result.stderr


def in_a_fresh_process(code, enable_x64):
    import os

    import minijit.trace.base.config as module

    root = module.__file__.partition(f"{os.sep}minijit{os.sep}trace")[0]
    env = {**os.environ, "MINIJIT_ENABLE_X64": enable_x64, "PYTHONPATH": root}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True)


@pytest.mark.chapter(16)
def test_flags_of_the_command_line(monkeypatch):
    flags = ["--jax_log_compiles", "--steps=3", "--jax_enable_x64=False"]
    flags += ["--jax_xla_profile_version=3"]
    monkeypatch.setattr("sys.argv", ["program.py", *flags])
    try:
        config.parse_flags_with_absl()
        assert config.log_compiles is True and config.enable_x64 is False
        assert config.read("xla_profile_version") == 3
    finally:
        config.update("log_compiles", False)
        config.update("xla_profile_version", 0)
    monkeypatch.setattr("sys.argv", ["program.py", "--jax_nope=1"])
    refused(AttributeError, "nope", config.parse_flags_with_absl)


@pytest.mark.chapter(16)
@pytest.mark.parametrize("name", ["parse_flags_with_absl", "config_with_absl"])
def test_a_program_may_begin_with_its_flags(name):
    """Nothing has asked for JAX's flags before: what comes with them is there."""
    code = f"import minijit; minijit.config.{name}(); print(minijit.config.enable_x64)"
    ran = in_a_fresh_process(code, "1")
    assert ran.stdout.strip() == "True", ran.stderr
