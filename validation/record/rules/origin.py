"""Where a record says it comes from: this checkout's sources of its paths, and a machine that can exist.

Provenance is attested: nothing here proves that a card was there. What contradicts itself is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strata.device import PINNED_ARCHS, dotted
from strata.executors.lanes.rules import Rule as Arithmetic
from strata.gates.sources import codebooks as made_of
from strata.gates.sources import file_names
from validation.numerics.tensorcore import Params, mma
from validation.numerics.tensorcore_vectors import vector_operands, vectors
from validation.record.identify import INPUTS, SPECIAL, instructions, names
from validation.record.rules.subject import Subject, short

#: The oldest driver of a CUDA major version, by the CUDA toolkit's release notes.
DRIVERS = {12: 525, 13: 580}
CARD_FACTS = ("capability", "multiprocessors", "memory_bytes", "driver", "cuda_runtime", "cupy", "nvrtc")
#: Capability, times ten, of cards by a word of their name, by NVIDIA's list of CUDA GPUs.
CARDS = {
    r"\bT4\b|\bRTX 20[678]0|\bTITAN RTX|\bGTX 16[56]0|\bQuadro RTX": 75,
    r"\bA100\b|\bA30\b": 80,
    r"\bRTX 30[5-9]0|\bA10G?\b|\bA40\b|\bRTX A[2-6]000": 86,
    r"\bRTX 40[5-9]0|\bL4\b|\bL40S?\b": 89,
    r"\bH100\b|\bH200\b|\bGH200\b": 90,
    r"\bB[12]00\b|\bGB200\b": 100,
    r"\bRTX 50[5-9]0": 120,
}


def sources(subject: Subject) -> Iterator[str]:
    """Every file that its paths are made of is named, and is this checkout's.

    What it says of other files takes nothing from it, as the gate has it: they may have changed, come or gone between
    the run and this checkout, and no number of its paths depends on them.
    """
    held = subject.record["sources"]
    for name in sorted(file_names(subject.paths)):
        ours = subject.sources.get(name, "")
        if name not in held:
            yield f"{name} is not named"
        elif held[name] != ours:
            yield f"{name} is another: {held[name][:16]}, this checkout has {ours[:16]}"


def codebooks(subject: Subject) -> Iterator[str]:
    """Every codebook that its paths upload is named and is this checkout's, and no other is."""
    held = subject.record.get("codebooks", {})
    due = {form: digest for path in subject.paths for form, digest in made_of(path).items()}
    for form in sorted(set(due) | set(held)):
        if form not in held:
            yield f"the codebook of {form} is not named"
        elif form not in due:
            yield f"{short(form)} has no codebook that these paths upload"
        elif held[form] != due[form]:
            yield f"the codebook of {form} is another: {held[form][:16]}, this checkout has {due[form][:16]}"


def provenance(subject: Subject) -> Iterator[str]:
    """What is attested does not contradict itself."""
    told = subject.record["provenance"]
    if not subject.card:
        for name in (*CARD_FACTS, "clock_khz"):
            if told[name] is not None:
                yield f"attested: lanes have no {name}, the record says {short(told[name])}"
        if subject.lanes_rule is None:
            yield f"attested: lanes followed rule {short(told['rule'])}, which does not exist"
        if told["compiler"] is None:
            yield "attested: lanes were built by no compiler"
        return
    missing = [name for name in CARD_FACTS if told[name] is None]
    if missing:
        yield f"attested: a card without {missing[0]}"
        return
    if told["rule"] is not None:
        yield f"attested: a card that follows rule {short(told['rule'])}, only lanes are told one"
    capability, cuda = told["capability"], int(told["cuda_runtime"].partition(".")[0])
    compiler = int(told["nvrtc"].partition(".")[0])
    if not any(capability in archs for archs in PINNED_ARCHS.values()):
        yield f"attested: compute capability {dotted(capability)}, which no card has"
    for number, what in ((cuda, "CUDA runtime"), (compiler, "NVRTC")):
        oldest = DRIVERS.get(number)
        if oldest is None:
            yield f"attested: {what} {number}, expected one of {', '.join(map(str, DRIVERS))}"
        elif int(told["driver"].partition(".")[0]) < oldest:
            yield f"attested: driver {told['driver']} with {what} {number}, which needs {oldest} or newer"
    for words, known in CARDS.items():
        if re.search(words, told["device"]) and known != capability:
            said = f"of compute capability {dotted(capability)}, it has {dotted(known)}"
            yield f"attested: {short(told['device'])} {said}"


def expected_vectors(rule: Arithmetic, k: int) -> list[str]:
    """What a tensor core gives for the separating vectors, as hex bits.

    Parameters
    ----------
    rule
        That it follows.
    k
        Products of the instruction.
    """
    a, b, c = vector_operands(vectors(k), k)
    bits = mma(a[:, None, :], b[:, :, None], c[:, None, None], Params(rule.block, rule.frac))
    return [f"{int(x):08x}" for x in bits.reshape(-1)]


def _answers(rule: Arithmetic) -> dict[str, str]:
    return {name: bits for k in (8, 16) for name, bits in zip(names(k), expected_vectors(rule, k), strict=True)}


def matching(subject: Subject) -> set[str]:
    """The readings of the card (or of lanes) that give all vectors that the record shows."""
    found = subject.record["identification"]["vectors"]
    held = set()
    for name, rule in subject.arithmetic:
        due = _answers(rule)
        if all(due.get(key) == bits for key, bits in found.items()):
            held.add(name)
    return held


def identification(subject: Subject) -> Iterator[str]:
    """The separating vectors gave what the card's rule, in one of its readings, gives.

    Nothing is expected of a card whose rule nobody knows, nor of lanes under exact arithmetic. The bits of special
    functions are a hint for people: no model predicts them.
    """
    found = subject.record["identification"]
    if found is None:
        yield "nothing was asked of the tensor core"
        return
    archs = [int(image["arch"].rpartition("_")[2]) for image in subject.record["images"] if "_" in image["arch"]]
    told = str(subject.record["provenance"]["rule"])
    older = max(archs, default=0) < 80 if subject.card else told.startswith("sm_75")
    due = [name for k in instructions(75 if older else 80) for name in names(k)]
    if set(found["vectors"]) != set(due):
        odd = sorted(set(due) ^ set(found["vectors"]))[0]
        yield f"the vector {short(odd)} is {'missing' if odd in due else 'not one of them'}"
    elif subject.arithmetic and all(rule.block for _, rule in subject.arithmetic) and not matching(subject):
        known = " or ".join(name for name, _ in subject.arithmetic)
        nearest = subject.arithmetic[0][1]
        expected = {
            name: bits for k in (8, 16) for name, bits in zip(names(k), expected_vectors(nearest, k), strict=True)
        }
        odd = next(key for key in due if expected[key] != found["vectors"][key])
        yield f"vector {odd} gave {found['vectors'][odd]}, {known} gives {expected[odd]}"
    if not subject.card:
        if found["special"]:
            yield "special functions of a card, on lanes"
    elif set(found["special"]) != set(SPECIAL) or any(
        len(bits.split(",")) != len(INPUTS) for bits in found["special"].values()
    ):
        yield f"the special functions are not the {len(SPECIAL)} instructions on {len(INPUTS)} inputs"
