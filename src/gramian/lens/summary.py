"""Everything the lens found about a network, one record per layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gramian.lens.branches import BranchScore
from gramian.lens.casts import Casts
from gramian.lens.early_exit import EarlyExit
from gramian.lens.judge import Judgement
from gramian.lens.scores import LayerLinearity
from gramian.moments import MomentSet


@dataclass(frozen=True)
class Summary:
    """The lens on one network: what was fitted on how much, and what it found per layer."""

    model: str
    fit_tokens: int
    casts: Casts
    linearity: tuple[LayerLinearity, ...]
    branches: dict[str, Casts]
    """``attn`` and ``mlp``: casts of the sub-modules."""
    judgement: Judgement | None = None
    exit: EarlyExit | None = None
    replaced: Mapping[str, tuple[BranchScore, ...]] = field(default_factory=dict)
    """``attn`` and ``mlp``: the network with that branch of a layer replaced by its cast."""

    @classmethod
    def of(
        cls,
        moments: MomentSet,
        casts: Casts,
        linearity: tuple[LayerLinearity, ...],
        branches: dict[str, Casts],
        judgement: Judgement | None = None,
        exit: EarlyExit | None = None,
        replaced: Mapping[str, tuple[BranchScore, ...]] | None = None,
    ) -> Summary:
        """Put together; the fit used the rows of ``train`` and ``select``."""
        counts = moments.counts
        fit = sum(counts[fold]["rows"] for fold in ("train", "select"))
        return cls(casts.model, fit, casts, linearity, branches, judgement, exit, replaced or {})

    def layers(self) -> list[dict[str, Any]]:
        """One record per layer; without judged text the scores on text are None."""
        records = []
        for i, (cast, score) in enumerate(zip(self.casts, self.linearity, strict=True)):
            judged = self.judgement.layers[i] if self.judgement else None
            record: dict[str, Any] = {"site": cast.site, "r2_report": cast.r2}
            for name in JUDGED:
                record[name] = getattr(judged, name) if judged else None
            record |= {
                "linearity": score.linearity,
                "linearity_with_sinks": score.linearity_with_sinks,
                "linearity_no_residual": score.linearity_no_residual,
                "linearity_orthogonal": score.linearity_orthogonal,
            }
            for branch, maps in self.branches.items():
                record[f"r2_{branch}"] = maps.casts[i].r2
            for branch, scores in self.replaced.items():
                for name in REPLACED:
                    record[f"{branch}_{name}"] = getattr(scores[i], name)
            records.append(record)
        return records

    def to_json(self) -> dict[str, Any]:
        """The document that ``gramian lens --json`` prints."""
        document: dict[str, Any] = {
            "model": self.model,
            "fit_tokens": self.fit_tokens,
            "eval_tokens": self.judgement.tokens if self.judgement else 0,
            "target": self.casts.target,
            "kind": self.casts.kind,
            "layers": self.layers(),
        }
        if self.exit:
            document["early_exit"] = {
                "asked": self.exit.asked,
                "agreement": self.exit.agreement,
                "threshold": self.exit.threshold,
                "layers_saved": self.exit.layers_saved,
                "share_saved": self.exit.share_saved,
            }
        return document


JUDGED = (
    "agreement",
    "agreement_identity",
    "precision_at_5",
    "precision_at_5_identity",
    "kl",
    "kl_identity",
    "surprisal",
    "surprisal_identity",
)
REPLACED = ("agreement", "agreement_dropped", "kl", "kl_dropped")
