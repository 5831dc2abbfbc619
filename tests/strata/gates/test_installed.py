"""The gate over files on disk: an edit closes exactly what it touches."""

from __future__ import annotations

import shutil
from pathlib import Path

from strata.device import Device
from strata.executors.base import KERNELS, source_digests
from strata.gates.gate import COMMAND
from strata.gates.installed import InstalledGate
from strata.gates.policy import POLICY, Policy, Rule
from strata.gates.sources import of_path
from strata.kernels.paths import PATHS
from strata.kernels.tiers import NEWEST
from tests.strata.gates import builder
from tests.strata.gates.builder import HOPPER, TURING

T4, H200 = Device("NVIDIA T4", 75), Device("NVIDIA H200", 90)
#: Asks a record of every tier, so that every path can be closed.
ANYTHING = Policy(
    dict.fromkeys(("sm75", "sm80", "simt"), Rule((0, NEWEST), (0, NEWEST))),
    dict.fromkeys({path.operation for path in PATHS.values()}, ()),
)


def test_one_character_closes_exactly_the_paths_that_include_the_file(tmp_path: Path) -> None:
    """Every file against every path. Under the policy paths with a baseline need records; under the other, all do."""
    cards = {"sm75": TURING, "sm80": HOPPER, "simt": HOPPER}
    accepted = tmp_path / "records"
    for tier, card in cards.items():
        builder.write(builder.value([name for name, path in PATHS.items() if path.tier == tier], card), accepted)
    copy = tmp_path / "kernels"
    shutil.copytree(KERNELS, copy)
    environ = {"STRATA_STATE_DIR": str(tmp_path / "state")}

    def opened(policy: Policy) -> set[str]:
        gate = InstalledGate(environ, accepted, copy, policy)
        assert gate.store.problems == ()
        devices = {"sm75": T4, "sm80": H200, "simt": H200}
        return {name for name, path in PATHS.items() if gate(path, devices[path.tier]).open}

    assert opened(POLICY) == opened(ANYTHING) == set(PATHS)
    made_of = {name: set(of_path(path).files) for name, path in PATHS.items()}
    closed_by: dict[str, frozenset[str]] = {}
    for file in source_digests():
        whole = (copy / file).read_bytes()
        middle = len(whole) // 2
        (copy / file).write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        closed_by[file] = frozenset(set(PATHS) - opened(ANYTHING))
        assert closed_by[file] == {name for name, files in made_of.items() if file in files}
        assert set(PATHS) - opened(POLICY) == {name for name in closed_by[file] if PATHS[name].baseline is not None}
        (copy / file).write_bytes(whole)
    assert opened(ANYTHING) == set(PATHS)
    # What it comes to, written out: the test must not follow the code that it tests.
    operations = {file: {name.partition("/")[0] for name in names} for file, names in closed_by.items()}
    attention = {"prompt_attention", "decode_attention"}
    cells = attention | {"kv_pack"}
    older = {"expert_mmq", "expert_decode"}
    experts = older | {"expert_fused"}
    around = {"router", "combine"}
    between = {"rms_norm", "gated", "softcap", "residual"}
    places = {"rope", "visible_cells"}
    selecting = {"block_select", "block_select_warp", "block_topk"}
    products = {"linear", "linear_dp4a"}
    blocks = products | {"embedding"}
    everything = cells | experts | around | selecting | between | places | blocks | {"linear_f16"}
    assert operations == {
        **{f"{operation}.cu": {operation} for operation in everything},
        "block_decode.cu": set(),  # belongs to no path
        "block_topk.cu": {"block_select", "block_topk"},
        "block_split.cu": {"block_select"},
        "compare_bytes.cu": set(),  # nor does this
        "expert_prepare.cu": {"expert_fused"},
        "linear_quantise.cu": {"linear"},  # the other needs no record, nor a list of its kernels
        "include/activation.cuh": {"expert_fused"} | products,
        "include/block_score.cuh": selecting,
        "include/shared_count.cuh": {"block_select", "block_topk"},
        "include/split_row.cuh": {"block_select"},
        "include/store_pair.cuh": {"block_select"},
        "include/exp2.cuh": attention | experts | around | {"gated", "softcap"},
        "include/expert_formats.cuh": experts | blocks,
        **{
            f"include/expert_{part}.cuh": {"expert_fused"} for part in ("copies", "finish", "fragments", "sums", "tile")
        },
        "include/group_product.cuh": {"expert_mmq", "linear"},
        "include/int8.cuh": experts | products,
        "include/kv_format.cuh": cells,
        "include/linear_dots.cuh": {"linear_dp4a"},
        "include/linear_formats.cuh": blocks,
        "include/linear_tile.cuh": {"linear"},
        "include/linear_units.cuh": products,
        "include/older_experts.cuh": older,
        "include/ptx.cuh": everything - around - between - places - (selecting - {"block_select"}),
        "include/quotient.cuh": experts | products | {"gated"},
        "include/swiglu.cuh": experts | {"gated"},
        "include/vocabulary.cuh": everything,
        "include/weight_tile.cuh": {"expert_mmq", "linear"},
    }


def test_kernels_that_cannot_be_read_lock_the_path(tmp_path: Path) -> None:
    gate = InstalledGate({"STRATA_STATE_DIR": str(tmp_path)}, tmp_path, tmp_path)
    decision = gate(PATHS["prompt_attention/q4_0/sm75"], T4)
    assert decision.reason == "locked: prompt_attention.cu cannot be read: No such file or directory"
    assert COMMAND in decision.way
