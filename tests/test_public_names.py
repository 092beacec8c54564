"""Every name that users had is still there, however the files are laid out."""

import importlib
from pathlib import Path

import pytest

import minijit
from minijit import ad_checkpoint, tree, tree_util

pytestmark = pytest.mark.chapter(27)


def names_by_module():
    """module -> its public names, as `public_names.txt` lists them."""
    listed, module = {}, None
    text = (Path(__file__).parent / "public_names.txt").read_text()
    for line in text.splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line and not line.startswith("#"):
            listed.setdefault(module, []).extend(line.split())
    return listed


@pytest.mark.parametrize("module,names", names_by_module().items())
def test_public_names(module, names):
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


def test_what_only_jax_needs_is_one_module_under_two_names():
    from minijit.experimental import checkify as inner
    from minijit.jaxcompat import core, experimental

    assert minijit.__all__ == sorted(minijit.__all__)
    assert minijit.core is core is importlib.import_module("minijit.core")
    assert minijit.experimental is experimental and experimental.checkify is inner
    assert inner is importlib.import_module("minijit.jaxcompat.experimental.checkify")
    with pytest.raises(ModuleNotFoundError, match="'minijit.experimental.nothing'"):
        importlib.import_module("minijit.experimental.nothing")


def test_a_function_with_two_public_names_is_one_function():
    assert tree.map is tree_util.tree_map is minijit.tree_map
    checkpoint = minijit.checkpoint
    assert minijit.remat is checkpoint and ad_checkpoint.checkpoint is checkpoint
    assert "Example:" in checkpoint.__doc__  # Its own, whichever name is asked first.
