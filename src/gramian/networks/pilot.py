"""The pilot: a fixed passage that sets the scale of the residual stream, whatever the data."""

from __future__ import annotations

from dataclasses import replace

import torch

from gramian.errors import GramianError
from gramian.moments import RowRule
from gramian.networks.capture import capture
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.rows import pilot_thresholds

PASSAGE = """\
The harbour was quiet in the early morning. Two boats had come in during the night, and their \
crews were still asleep below deck. On the quay an old man mended a net and counted the knots \
aloud: twelve, thirteen, fourteen. Behind him the baker opened her shop, set out the bread, and \
wrote the prices on a board. "The wind will turn before noon," she said. He looked at the sky, \
nodded, and went on with his work.

In 1987 the town built a new wall against the sea. It is 640 metres long and cost more than the \
council had planned, but it has held in every storm since then. A report from the university \
lists three reasons: the stone is local, the foundation is deep, and the gaps between the blocks \
let the water drain away. Engineers from other countries visit in summer to measure it.

def area(width, height): return width * height

How far is it to the lighthouse? If you follow the path along the cliff, you need about forty \
minutes; by the road it takes an hour, because the road goes round the bay. Most visitors choose \
the path, although it is narrow and there is no railing. Take water with you, and a coat.
"""
"""Prose, dialogue, numbers and a line of code. Thresholds depend on the model alone, so that
moments of different data can be added."""


def fixed_rule(checkpoint: Checkpoint, rule: RowRule) -> RowRule:
    """The rule with its norm thresholds set: ``rule.factor`` x the median norm of the pilot.

    Rounded to two significant digits, so that machines which round differently agree.
    """
    if rule.factor is None or rule.thresholds:
        return rule
    blueprint = checkpoint.blueprint
    encoded = checkpoint.tokenizer(PASSAGE, add_special_tokens=False)["input_ids"]
    if not encoded:
        raise GramianError(
            f"the tokenizer of {checkpoint.name} makes no token of English text; it does not "
            "belong to this model, or its vocabulary is missing"
        )
    ids = torch.tensor(encoded)[None].clamp_max(blueprint.vocabulary - 1)
    limit = checkpoint.positions or ids.shape[1]
    ids = ids[:, : min(ids.shape[1], limit)]
    norms = capture(checkpoint.model, blueprint, (), ids, norms=True).norms
    assert norms is not None
    found = pilot_thresholds(torch.ones_like(ids, dtype=torch.bool), norms, rule.factor, blueprint)
    # A site whose median norm is 0 (a zero embedding) has no scale to measure sinks by.
    thresholds = {site: float(f"{v:.2g}") if v > 0 else float("1e300") for site, v in found.items()}
    return replace(rule, thresholds=thresholds)
