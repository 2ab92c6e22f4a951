"""Which rows of a batch count, and which are sinks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gramian.moments import RowRule
from gramian.networks.blueprint import Blueprint


def sink_rows(mask: Tensor, norms: Tensor | None, rule: RowRule, blueprint: Blueprint) -> Tensor:
    """(batch, length) True where a real token is a sink under the rule.

    The first position of a causal network is one; so is a row whose residual norm is above the
    recorded threshold at any residual site, since a token that is a sink in one layer stays one
    token in all.
    """
    sinks = torch.zeros_like(mask)
    if rule.first and blueprint.causal:
        sinks[:, 0] = True
    if norms is not None and rule.thresholds:
        limits = torch.tensor(
            [rule.thresholds[site] for site in blueprint.residual_sites()],
            dtype=norms.dtype,
            device=norms.device,
        )
        sinks |= (norms > limits[:, None, None]).any(0).to(sinks.device)
    return sinks & mask


def kept_rows(mask: Tensor, norms: Tensor | None, rule: RowRule, blueprint: Blueprint) -> Tensor:
    """(batch, length) True where a real token is not a sink."""
    return mask & ~sink_rows(mask, norms, rule, blueprint)


def pilot_thresholds(
    mask: Tensor, norms: Tensor, factor: float, blueprint: Blueprint
) -> Mapping[str, float]:
    """Residual site -> the norm above which a row is a sink: ``factor`` x the pilot's median over
    real tokens that are not first."""
    counted = mask.clone()
    if blueprint.causal:
        counted[:, 0] = False
    if not bool(counted.any()):
        counted = mask
    medians = norms[:, counted.to(norms.device)].double().median(-1).values
    return {
        site: factor * float(median)
        for site, median in zip(blueprint.residual_sites(), medians, strict=True)
    }
