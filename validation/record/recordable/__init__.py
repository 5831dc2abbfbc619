"""Operations that records are of, one module each: what a record and its verifier ask of an operation.

A record is of one operation. Everything else in `validation.record` is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from validation.record.recordable.attention import Attention
from validation.record.recordable.experts import FusedExperts
from validation.record.recordable.recordable import Recordable

#: By name, as paths have them.
RECORDABLE: Mapping[str, Recordable] = {"prompt_attention": Attention(), "expert_fused": FusedExperts()}
