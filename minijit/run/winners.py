"""The loops that `minijit.tune` found to be fastest, kept on the disk.

    ~/.cache/minijit/schedules/8c1e...77.json       # {"ways": ..., "nanoseconds": ...}

A file is named after a kernel's loops before anything is arranged, the machine, and
how many of its cores help.  Within it is a hash of the loops that run, in all ways that
were compared: where others are proposed, as by another version of the recipes, it says
nothing.
"""

import json
import os

from ..compile.schedule.choose import plain_text
from ..trace.base.config import config
from .cache_folder import digest, folder_of, keep_of_key, of_key
from .llvm.target import host

KIND = "schedules"


def key_of(program, machine):
    """The text by which a program of one kernel is known."""
    return "\n".join(map(str, (machine, host(), plain_text(program, tuple))))


def kept_winner(program, machine):
    """What was measured of a kernel: a row for the table `choose.winners`.

    Nothing counts for another machine than this one: not for that of the book.
    """
    if config.read("machine") != "host" or not os.path.isdir(folder_of(KIND)):
        return None
    found = of_key(KIND, key_of(program, machine), "json")
    if found is None:
        return None
    record = json.loads(found)

    def nanoseconds(ways_text):
        same = record["ways"] == digest(ways_text).hex()
        return record["nanoseconds"] if same else {}

    return nanoseconds


def keep_winner(key, ways_text, nanoseconds):
    """Keep {way: ns}, the fastest first, of the kernel that a key names."""
    record = {"ways": digest(ways_text).hex(), "nanoseconds": nanoseconds}
    keep_of_key(KIND, key, "json", json.dumps(record).encode())
