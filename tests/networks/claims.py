"""What each family takes, and the maps and measurements that its tests share."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Dense, IdentityPlus, LowRank
from gramian.networks import FoldNorm, Plan, apply, capture
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny

WIDTH = 32
READ = {"fold_reader", "stream_readers", "arrange"}
POST_NORM = READ | {"fold_norm"}
PRE_NORM = POST_NORM | {"fold_map", "stream_writers", "rotate"}
CLAIMS = {
    "llama": PRE_NORM,
    "mistral": PRE_NORM,
    "mixtral": PRE_NORM,
    "qwen2": PRE_NORM,
    "qwen3": PRE_NORM,
    "qwen3_moe": PRE_NORM,
    "gpt_oss": PRE_NORM,
    "gemma": PRE_NORM,
    "phi3": PRE_NORM,
    # Every norm subtracts the mean.
    "phi": PRE_NORM | {"centre"},
    "gpt2": PRE_NORM | {"centre"},
    "gpt_neox": PRE_NORM | {"centre"},
    "gpt_neox_sequential": PRE_NORM | {"centre"},
    "opt": PRE_NORM | {"centre"},
    "falcon": PRE_NORM | {"centre"},
    "falcon_multi": PRE_NORM | {"centre"},
    "falcon_new": PRE_NORM | {"centre"},
    "falcon_sequential": PRE_NORM | {"centre"},
    # A norm stands between the matrices that write and the stream.
    "gemma2": POST_NORM,
    "gemma3_text": POST_NORM,
    "olmo2": POST_NORM,
    # The stream itself is normalised after every addition.
    "opt_after": READ | {"fold_map"},
    "bert": READ | {"fold_map"},
    "roberta": READ | {"fold_map"},
    "xlm-roberta": READ | {"fold_map"},
    "distilbert": READ | {"fold_map"},
}
"""Family -> the moves it takes; all others it refuses."""

UNCLAIMED = {
    "fold_map": "output of a norm",
    "stream_writers": "a norm stands between",
    "rotate": "no free basis|is its output",
    "centre": "LayerNorm stands before all that reads",
}
FAMILIES = (*tiny.FAMILIES, *tiny.VARIANTS, *tiny.ENCODERS)
QUICK = {"llama", "mixtral", "gemma3_text", "gpt_oss", "gpt2", "falcon", "bert"}
"""One of every form; all the others run with ``-m slow``."""


def outputs(checkpoint):
    return outputs_of(checkpoint.model, tiny.ids())


def orthogonal(*, keep_ones=False, seed=3):
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64)
    if not keep_ones:
        return Dense(torch.linalg.qr(draw).Q).with_tags("orthogonal")
    first = torch.cat((torch.ones(WIDTH, 1, dtype=torch.float64), draw[:, 1:]), dim=1)
    basis = torch.linalg.qr(first).Q
    inner = torch.linalg.qr(draw[1:, 1:]).Q
    # u uᵀ + B Q Bᵀ
    full = torch.block_diag(torch.ones(1, 1, dtype=torch.float64), inner)
    return Dense(basis @ full @ basis.T).with_tags("orthogonal")


def projection(rank=3, *, oblique=True, seed=7):
    """I - A (Bᵀ A)⁻¹ Bᵀ."""
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, WIDTH, rank, generator=generator, dtype=torch.float64)
    b = a + 0.4 * b if oblique else a
    return IdentityPlus(LowRank(-a @ torch.linalg.inv(b.T @ a), b.T))


def all_norms(checkpoint):
    return [FoldNorm(n.name) for n in checkpoint.blueprint.stream_norms() if n.readers]


def applied(source, out, *moves, **options):
    """Apply and open again."""
    certificate = apply(source, Plan.of(source, *moves), out, **options)
    assert certificate.reference_error < 1e-5
    return open_checkpoint(out), certificate


def unchanged(written, source):
    expected = outputs(source)
    gap = (outputs(written) - expected).abs().max() / expected.abs().max()
    assert gap < 1e-5


def inside(checkpoint):
    """A place within the second block, or before it where its branches read the same."""
    taps = checkpoint.blueprint.layers[1].taps
    return "1.resid_mid" if "resid_mid" in taps else "1.resid_pre"


def layer_norms(checkpoint):
    return any(norm.kind == "layer" for norm in checkpoint.blueprint.stream_norms())


def stream(checkpoint):
    sites = checkpoint.blueprint.residual_sites()
    return capture(checkpoint.model, checkpoint.blueprint, sites, tiny.ids()).rows


each_family = pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FAMILIES],
)


def claims(family, move):
    return move in CLAIMS[family]


def refused(source, move, *moves):
    with pytest.raises(GramianError, match=UNCLAIMED[move]):
        Plan.of(source, *moves)
