"""Why the system does not load or start a compiled kernel, and what helps: a hint for each known reason."""

from __future__ import annotations

import errno
import re

from strata.executors.cache import VARIABLE

_NOWHERE = f"nothing may be run from there (a noexec mount?), set {VARIABLE} to another place"
_OTHER_MACHINE = "the compiler makes code for another machine, set CXX to one for this machine"
_FULL = "this process has no memory left, or as many mappings as the system allows (vm.max_map_count)"
_LIBRARY = (
    "the compiler's own libraries are not where the loader looks, set CXX to another C++ compiler (g++, not gcc) or "
    "install them"
)

#: What the loader says and what helps, the first that fits.
_HINTS = (
    (r"static TLS", "other libraries took the room, set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 for more"),
    (r"Operation not permitted|Permission denied", _NOWHERE),
    (r"Cannot allocate memory|cannot (allocate|create)|out of memory", _FULL),
    (r"failed to map segment", _NOWHERE),
    (r"Too many open files|File table overflow", "this process has too many files open (ulimit -n)"),
    (r"wrong ELF class|ELF file's|invalid ELF header|[Ee]xec format", _OTHER_MACHINE),
    (r"version `", "the C++ library that is loaded is older than the compiler's, set CXX to another compiler"),
    (r"undefined symbol", _LIBRARY),
    (r"file too short|read file data", "the file is damaged, and so may be its neighbours: delete the cache"),
    (r"^cannot open shared object file: No such file", "somebody deleted it meanwhile; run again"),
    (r": cannot open shared object file", _LIBRARY),
)
_OF_NUMBER = {
    errno.EACCES: _NOWHERE,
    errno.EPERM: _NOWHERE,
    errno.ENOEXEC: _OTHER_MACHINE,
    errno.ENOENT: f"it was deleted, or {_OTHER_MACHINE}",  # the system says so of a missing loader too
    errno.ENOMEM: _FULL,
    errno.EAGAIN: "this user has as many processes as allowed (ulimit -u)",
    errno.EMFILE: "this process has too many files open (ulimit -n)",
}


def hint(reason: str) -> str:
    """`; ` and what helps against what the loader said, of the library itself or of one that it needs; else empty."""
    found = next((text for pattern, text in _HINTS if re.search(pattern, reason)), "")
    return f"; {found}" if found else ""


def hint_of_number(number: int | None) -> str:
    """As `hint`, for the number of an OSError of starting a program."""
    found = _OF_NUMBER.get(number or 0, "")
    return f"; {found}" if found else ""
