"""Run a command that nobody vouches for: what a student wrote, while it is graded.

    python confine.py '{"folder": ..., "seconds": 60, "megabytes": 4096, ...}'

It may read Python and the system's libraries, read and write one folder, and nothing
else: no other submission, no network.  Its time, memory, files and processes are
limited, it can send signals only to processes of its own, and when it ends or is late,
all that it has started ends with it.  Linux's Landlock does most of this, for ordinary
users as well; root's commands run as `nobody`.  The file is run by path and imports
nothing of the book.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

NOBODY = 65534
PROCESSES = 200  # that it may have at once, threads among them
LARGEST = 256 << 20  # bytes of a file that it writes
PATIENCE = 3  # times the seconds that it may work: so long it may take in all
LATE = 124  # the exit status of a command that was stopped
SYSTEM = (
    "/usr", "/bin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc/alternatives",
    "/etc/ld.so.cache", "/etc/localtime",
)  # fmt: skip
# Of Landlock: what may be done with a file, and with a folder.
READ, WRITE_FILE, TRUNCATE = 0b1101, 1 << 1, 1 << 14  # execute, read file, read folder
OF_FILES = 0b111 | TRUNCATE | 1 << 15
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # bits by version; 16 from the fifth on
TCP, SIGNALS_AND_SOCKETS = 0b11, 0b11  # what may not leave: connections, signals


def landlock_version() -> int:
    """What the kernel has of Landlock: 0 is nothing, from 6 on it keeps signals in."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, ctypes.CDLL(None).syscall(444, None, 0, 1))


def prefix() -> list[str]:
    """What stands before the command where Landlock keeps no signals in."""
    if landlock_version() >= 6 or os.geteuid() == 0:
        return []
    return ["unshare", "--user", "--map-current-user", "--pid", "--fork",
            "--kill-child", "--mount-proc"]  # fmt: skip


def missing() -> str:
    """Why commands cannot be confined on this machine, or ""."""
    if not landlock_version():
        return f"{platform.system()} {platform.release()} has no Landlock"
    if command := prefix():
        tried = [*command, "true"]
        has = shutil.which(command[0])
        if not has or subprocess.run(tried, capture_output=True).returncode:
            return "signals leave the sandbox: no Linux 6.12, and no user namespaces"
    return ""


def readable() -> list[str]:
    """What Python needs to read, apart from the system's libraries."""
    found = [sys.prefix, sys.base_prefix, os.path.realpath(sys.executable)]
    found += [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    return sorted({os.path.realpath(path) for path in found})


def command(folder: Path, seconds: float, megabytes: int, line: list[str]) -> list[str]:
    """The command that runs a command line confined to a folder."""
    about = {"folder": str(folder), "seconds": seconds, "megabytes": megabytes,
             "readable": readable(), "line": [*prefix(), *line]}  # fmt: skip
    return [sys.executable, "-I", __file__, json.dumps(about)]


# -- in the process that watches over it


def main(about: dict[str, Any]) -> int:
    """Run the command of a description; its exit status, negative for a signal."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: its orphans become ours
    end_with_parent()
    if os.geteuid() == 0:
        give(Path(about["folder"]), NOBODY)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            limit(about["seconds"], about["megabytes"])
            if os.geteuid() == 0:
                become_nobody(libc)
            keep_in(libc, about["folder"], about["readable"])
            os.execvp(about["line"][0], about["line"])
        except BaseException as e:
            print(f"Error: it cannot be confined: {e!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(125)
    # The kernel counts the time in which it works; others may need the cores as well.
    end = time.monotonic() + PATIENCE * about["seconds"]
    try:
        while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                break
            time.sleep(0.02)
    finally:
        end_all()
    code = os.waitstatus_to_exitcode(status[1]) if status[0] else LATE
    return LATE if code in (-signal.SIGXCPU, -signal.SIGKILL) else code


def end_with_parent() -> None:
    """End in order when this process is told to, or when its parent is gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(LATE))
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG


def give(folder: Path, user: int) -> None:
    """Make somebody the owner of a folder and all in it."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user, user, follow_symlinks=False)


def end_all() -> None:
    """End all processes that came from this one, and those that they start now."""
    while found := descendants(os.getpid()):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass  # gone already, or its parent's to be waited for
        time.sleep(0.01)


def descendants(of: int) -> set[int]:
    """The processes that came from one, by the kernel's table."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if fields[0] != "Z" or int(fields[1]) == of:
            parents[int(stat.parent.name)] = int(fields[1])
    found, grown = {of}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return found - {of}


# -- in its own process, before it begins


def limit(seconds: float, megabytes: int) -> None:
    """Limit time, memory, files and processes of this process and those it starts."""
    import resource

    there = sum(tasks_of(os.geteuid() or NOBODY))
    for what, most in (
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_AS, megabytes << 20),
        (resource.RLIMIT_FSIZE, LARGEST),
        (resource.RLIMIT_NPROC, there + PROCESSES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def become_nobody(libc: Any) -> None:
    """Be no longer root, but read what root can: Python may lie in root's home."""
    read = 1 << 2  # CAP_DAC_READ_SEARCH; Landlock says which files
    checked(libc.prctl(8, 1, 0, 0, 0))  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)(read, read, read)  # effective, permitted, inheritable
    checked(libc.capset(head, sets))
    checked(libc.prctl(47, 2, 2, 0, 0))  # PR_CAP_AMBIENT: the command has it, too


def tasks_of(user: int) -> list[int]:
    """How many threads each process of a user has."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == user:
                found.append(len(os.listdir(path / "task")))
        except OSError:
            continue  # it has ended
    return found


def keep_in(libc: Any, folder: str, others: list[str]) -> None:
    """Let this process read Python and the system, and write in one folder alone."""
    version = landlock_version()
    every = (1 << RIGHTS.get(version, 16)) - 1
    words = [every, TCP, SIGNALS_AND_SOCKETS]
    words = words[: 3 if version >= 6 else 2 if version >= 4 else 1]
    about = (ctypes.c_uint64 * len(words))(*words)
    rules = checked(libc.syscall(444, about, ctypes.sizeof(about), 0))
    for path in [*SYSTEM, *others]:
        allow(libc, rules, path, READ)
    for path in ("/dev/null", "/dev/zero"):
        allow(libc, rules, path, (READ | WRITE_FILE | TRUNCATE) & every)
    allow(libc, rules, folder, every)
    checked(libc.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS
    checked(libc.syscall(446, rules, 0))


def allow(libc: Any, rules: int, path: str, rights: int) -> None:
    """Allow what `rights` say with a file, or with all in a folder, if it is there."""
    if not os.path.exists(path):
        return
    rights &= ~0 if os.path.isdir(path) else OF_FILES
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    checked(libc.syscall(445, rules, 1, rule, 0))
    os.close(place)


def checked(result: int) -> int:
    """The result of a system call, or OSError."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


if __name__ == "__main__":
    code = main(json.loads(sys.argv[1]))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
