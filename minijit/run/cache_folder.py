"""Files that can be made again: generated source, and machine code.

    path = keep("source", "1f0a.py", text.encode())     # written, or there already
    find("objects", "77c3.o")                           # its content, or None

They lie in `config.cache_dir`, in a folder for each kind that only the user can enter.
A name is a hash of all that the content depends on, so a file that is there is the
right one.  Many processes may write at once: each moves a whole file into its place.
Where nothing can be written a warning says so, once, and all goes on without.
"""

import math
import os
import time
import warnings
from contextlib import suppress

from ..trace.base.config import config
from ..trace.base.errors import user_level

default_folder = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "minijit"
)
config.define("cache_dir", default_folder, "the folder for generated source and code")
config.define(
    "cache_bytes", 256 << 20, "how many bytes of files of one kind cache_dir may have"
)

# What a file counts as, at least: folders of very many files are slow, too.
LEAST = 1 << 16
# {folder: about how many bytes have been written since it was last pruned}
written: dict = {}
# The folders that a warning has named.
unusable = set()


def folder_of(kind):
    """The path of the folder for a kind of files: from "~" on where none is home."""
    parent = os.path.expanduser(config.cache_dir or default_folder)
    return os.path.join(parent if parent[0] == "~" else os.path.abspath(parent), kind)


def private_folder(kind):
    """The folder for a kind of files, made if need be; the user's alone.

    Raises:
      OSError: it cannot be made, or another user could write to it.
    """
    folder = folder_of(kind)
    if folder[0] == "~":
        # The name of a folder in the one that a program stands in, to all that follow.
        raise FileNotFoundError(0, "the user has no home folder")
    parent = os.path.dirname(folder)
    os.makedirs(os.path.dirname(parent), exist_ok=True)
    for made in (parent, folder):
        with suppress(FileExistsError):
            os.mkdir(made, 0o700)
            # Whatever the umask.
            os.chmod(made, 0o700)
    # It may be a link of the user's own to such a folder.
    link, status = os.lstat(folder), os.stat(folder)
    owners = {link.st_uid, status.st_uid}
    if os.name == "posix" and (owners != {os.getuid()} or status.st_mode & 0o022):
        raise PermissionError(0, "other users may write there")
    if status.st_mode & 0o077:
        # An earlier edition let others read it; of what is mounted to be read only,
        # nothing changes.
        with suppress(OSError):
            os.chmod(folder, 0o700)
    return folder


def note_use(path):
    """Say that a file is used, where that can be said: see `prune`."""
    with suppress(OSError):
        os.utime(path)


def keep(kind, name, content, anew=False):
    """Put a file into the folder of its kind: -> its path.

    Args:
      content: bytes; anew: whether to write it even if there is one of that name.
    """
    # A tenth of a millisecond in a program that keeps files, and five in any other.
    import tempfile

    folder = folder_of(kind)
    path = os.path.join(folder, name)
    try:
        private_folder(kind)
        if not anew and os.path.exists(path):
            note_use(path)
            return path
        handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        written[folder] = written.get(folder, math.inf) + max(len(content), LEAST)
        if 8 * written[folder] > config.cache_bytes:
            prune(kind)
    except OSError as error:
        report_unusable(folder, error)
    return path


def find(kind, name):
    """The content of a file, or None if there is none that can be trusted and read."""
    path = os.path.join(folder_of(kind), name)
    if not os.path.exists(path):
        return None
    try:
        private_folder(kind)
        with open(path, "rb") as file:
            content = file.read()
        note_use(path)
    except FileNotFoundError:
        # Another process has just removed it.
        return None
    except OSError as error:
        report_unusable(folder_of(kind), error)
        return None
    return content


def prune(kind):
    """Remove the files that were not used for longest; an eighth stays free."""
    folder = folder_of(kind)
    written[folder] = 0
    entries = [entry.path for entry in os.scandir(folder) if entry.is_file()]
    files, size = [], 0
    for path in entries:
        # Another process may be removing it, too.
        with suppress(FileNotFoundError):
            status = os.stat(path)
            files.append((status.st_mtime, max(status.st_size, LEAST), path))
    for used, nbytes, path in sorted(files, reverse=True):
        size += nbytes
        # A process that was killed leaves a file that it was writing.
        left = path.endswith(".tmp") and used < time.time() - 3600
        if left or 8 * size > 7 * config.cache_bytes:
            with suppress(FileNotFoundError):
                os.unlink(path)


def report_unusable(folder, error):
    """Warn, once, that nothing can be kept in a folder."""
    if folder in unusable:
        return
    unusable.add(folder)
    warnings.warn(
        f"minijit cannot keep the files that it generates in {folder}: "
        f"{error.strerror}. Functions run all the same, but their source cannot be "
        "opened, and the next process compiles them again.\n"
        '  Instead: name another folder, config.update("jax_cache_dir", folder) or '
        "MINIJIT_CACHE_DIR in the environment.",
        UserWarning,
        stacklevel=user_level(),
    )


def digest(content):
    """The SHA-256 of a text or of bytes, as bytes."""
    import hashlib

    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).digest()


def short_name(content):
    """A name for a text or bytes that nothing else has: 16 hexadecimal digits."""
    return digest(content).hex()[:16]


def write_source(text):
    """Put a source file into the cache folder: -> its path."""
    return keep("source", f"{short_name(text)}.py", text.encode())


def of_key(kind, key, end):
    """The bytes that an earlier process, or this one, has kept for a key; or None.

    Args:
      kind: the folder; key: a text; end: of the file's name.

    The file begins with a hash of the key and the rest: one that is damaged, or belongs
    to another key, counts for nothing.
    """
    known = digest(key)
    content = find(kind, f"{known.hex()}.{end}")
    right = content and digest(known + content[32:]) == content[:32]
    return content[32:] if right else None


def keep_of_key(kind, key, end, code):
    """Keep bytes for a key, in the place of those that are there."""
    known = digest(key)
    keep(kind, f"{known.hex()}.{end}", digest(known + code) + code, anew=True)
