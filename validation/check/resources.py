"""What a launch asks of a card, held against what cards have: lanes would run it all the same.

Registers are known to a card's compiler alone, so a report on lanes says that they are not judged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from strata.kernels.device_reading import SHARED_LIMITS

#: Bytes of shared memory of a block at most, on any card, and threads.
MOST_SHARED = max(SHARED_LIMITS.values())
MOST_THREADS = 1024
#: Blocks of a grid at most, by axis.
MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
#: Registers of a multiprocessor, which a block shares, of a thread at most, and the step in which they are given.
_REGISTERS, _MOST_REGISTERS, _STEP = 65_536, 255, 8

_ENTRY = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\(([^;{}]*?)\)\s*)?(\w+)\s*\(")
_NUMBER = re.compile(
    r"(?:^\s*#\s*define\s+|\bconstexpr\s+(?:int|i32|u32|unsigned)\s+)(\w+)\s*=?\s*([^;\n]+)", re.MULTILINE
)
_EACH = re.compile(r"\b(\w+)\s*=\s*([^,;\n]+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def launch_bounds(texts: Sequence[str], macros: Mapping[str, int]) -> dict[str, int]:
    """The threads for which `__launch_bounds__` has a source's functions compiled: a card refuses more.

    texts: the source and its own headers. Functions without it, and those of which the number is no plain one, of
    whole numbers, names and `+ - * /`, are left out.
    """
    plain = [_COMMENT.sub(" ", text) for text in texts]
    said: dict[str, str] = {}
    for text in plain:
        for match in _NUMBER.finditer(text):
            said[match[1]] = match[2]
            said |= {name: value for name, value in _EACH.findall(match[0]) if "constexpr" in match[0]}
    said |= {name: str(value) for name, value in macros.items()}
    found = {}
    for text in plain:
        for bounds, entry in _ENTRY.findall(text):
            number = _value(bounds.split(",")[0].strip(), said, 0)
            if number is not None:
                found[entry] = number
    return found


def _value(text: str, said: Mapping[str, str], depth: int) -> int | None:
    """A whole number in numbers, names and arithmetic; None for anything else."""
    if not text or depth > 8 or not re.fullmatch(r"[\w\s+\-*/()]+", text):
        return None
    for name in set(re.findall(r"\b[A-Za-z_]\w*", text)):
        inner = _value(said.get(name, "").strip(), said, depth + 1)
        if inner is None:
            return None
        text = re.sub(rf"\b{name}\b", str(inner), text)
    try:
        return _folded(ast.parse(text.replace("/", "//"), mode="eval").body)
    except (SyntaxError, ZeroDivisionError):
        return None


def _folded(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _folded(node.left), _folded(node.right)
    if left is None or right is None:
        return None
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right
        case _:
            return None


def without_room(shared_bytes: int) -> list[str]:
    """The compute capabilities whose cards refuse so many bytes of shared memory, as `sm_75`."""
    return [f"sm_{arch}" for arch, most in sorted(SHARED_LIMITS.items()) if shared_bytes > most]


def registers(block: int) -> int:
    """How many registers a thread of a block may have at most, or the launch fails."""
    warps = -(-block // 32) * 32
    return min(_MOST_REGISTERS, _REGISTERS // warps // _STEP * _STEP)
