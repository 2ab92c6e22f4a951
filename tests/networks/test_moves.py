"""Every move is exact on every family that claims it, and refused with a reason on the others."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, IdentityPlus, LowRank
from gramian.networks import (
    Arrange,
    CentreWriters,
    DropLayers,
    FoldMap,
    FoldNorm,
    FoldReader,
    FoldStream,
    Plan,
    Replace,
    Rotate,
    apply,
    capture,
)
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
ALIKE = {"mistral", "qwen2", "qwen3", "phi3", "gemma2", "roberta", "xlm-roberta", *tiny.VARIANTS}
"""Of the same form as another one; run with ``-m slow``."""


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


def test_every_family_says_what_it_takes():
    assert set(CLAIMS) == set(FAMILIES)


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in FAMILIES
    ]
)
def family(request):
    return request.param


def claims(family, move):
    return move in CLAIMS[family]


def refused(source, move, *moves):
    with pytest.raises(GramianError, match=UNCLAIMED[move]):
        Plan.of(source, *moves)


def test_fold_every_norm(checkpoint, family, tmp_path):
    source = checkpoint(family)
    moves = all_norms(source)
    if not claims(family, "fold_norm"):
        assert not moves
        norm = source.blueprint.stream_norms()[-1].name
        with pytest.raises(GramianError, match="no matrix reads it"):
            Plan.of(source, FoldNorm(norm))
        return
    before = {name: t.clone() for name, t in source.model.state_dict().items()}
    written, _ = applied(source, tmp_path / "out", *moves)
    unchanged(written, source)
    for norm in written.blueprint.stream_norms():
        if norm.readers:
            gain = written.model.get_parameter(norm.weight)
            assert (gain == (0 if norm.kind == "rms1p" else 1)).all()
    assert all(torch.equal(before[name], t) for name, t in source.model.state_dict().items())


@pytest.mark.parametrize("site", ["1.attn_out", "1.mlp_out"])
def test_fold_map(checkpoint, family, site, tmp_path):
    source = checkpoint(family)
    move = FoldMap(site, projection())
    if not claims(family, "fold_map"):
        return refused(source, "fold_map", move)
    written, certificate = applied(source, tmp_path / "out", move)
    matrix = source.blueprint.writer(site)
    old = source.model.get_parameter(matrix.weight).double()
    new = written.model.get_parameter(matrix.weight).double()
    dense = projection().to_dense()
    expected = old @ dense.T if matrix.inputs_first else dense @ old
    torch.testing.assert_close(new, expected, rtol=1e-5, atol=1e-6)
    assert certificate.change > 1e-3


def test_fold_reader(checkpoint, family, tmp_path):
    source = checkpoint(family)
    written, certificate = applied(
        source,
        tmp_path / "out",
        FoldReader("1.attn_in", projection()),
        FoldReader("2.mlp_in", projection(2)),
    )
    dense = projection().to_dense()
    for reader in source.blueprint.readers(1):
        if reader.site == "1.attn_in":
            old = source.model.get_parameter(reader.matrix.weight).double()
            new = written.model.get_parameter(reader.matrix.weight).double()
            expected = dense.T @ old if reader.matrix.inputs_first else old @ dense
            torch.testing.assert_close(new, expected, rtol=1e-5, atol=1e-6)
    assert certificate.change > 1e-3
    assert certificate.removed == ()


def test_fold_stream_into_readers(checkpoint, family, tmp_path):
    source = checkpoint(family)
    place = inside(source)
    _, certificate = applied(source, tmp_path / "a", FoldStream(projection(), "readers", place))
    assert not any(".0." in name for name in certificate.changed)
    _, certificate = applied(source, tmp_path / "b", FoldStream(projection(), "readers"))
    assert any(".0." in name for name in certificate.changed)
    head = source.blueprint.head
    assert head is None or head.weight in certificate.changed


def test_fold_stream_into_writers(checkpoint, family, tmp_path):
    source = checkpoint(family)
    move = FoldStream(projection(), "writers")
    if not claims(family, "stream_writers"):
        return refused(source, "stream_writers", move)
    written, _ = applied(source, tmp_path / "out", move)
    # Nothing ever writes what the projection removes.
    for name, rows in stream(written).items():
        gone = rows.double() - projection()(rows)
        assert gone.abs().max() < 1e-4 * rows.abs().max(), name
    # Before a place, only.
    place = inside(source)
    _, certificate = applied(source, tmp_path / "b", FoldStream(projection(), "writers", place))
    writers = [w.matrix.weight for w in source.blueprint.stream_writers()]
    sites = [w.site for w in source.blueprint.stream_writers()]
    changed = {s for s, w in zip(sites, writers, strict=True) if w in certificate.changed}
    first = {"0.attn_out", "0.mlp_out"}
    assert changed == (first if place == "1.resid_pre" else first | {"1.attn_out"})


def test_an_affine_eraser_keeps_its_mean_in_the_token_table(checkpoint, family, tmp_path):
    source = checkpoint(family)
    if not claims(family, "stream_writers"):
        return
    p, mean = projection(), torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
    # r(x) = P x + (I - P) mean
    eraser = Affine(p, mean - p(mean))
    written, _ = applied(source, tmp_path / "out", FoldStream(eraser, "writers"))
    for name, rows in stream(written).items():
        gone = rows.double() - p(rows) - eraser.bias
        assert gone.abs().max() < 1e-4 * rows.abs().max(), name


def test_rotate(checkpoint, family, tmp_path):
    source = checkpoint(family)
    r = orthogonal(keep_ones=layer_norms(source))
    if not claims(family, "rotate"):
        return refused(source, "rotate", *all_norms(source), Rotate(r))
    with pytest.raises(GramianError, match=r"norm '0\.attn' has a gain .* FoldNorm\('0\.attn'\)"):
        Plan.of(source, Rotate(r))
    written, certificate = applied(source, tmp_path / "out", *all_norms(source), Rotate(r))
    unchanged(written, source)
    assert certificate.agreement == 1.0
    before, after = stream(source), stream(written)
    for name in before:
        torch.testing.assert_close(after[name].double(), r(before[name]), rtol=1e-4, atol=1e-4)


def test_centre_writers(checkpoint, family, tmp_path):
    source = checkpoint(family)
    if not claims(family, "centre"):
        return refused(source, "centre", CentreWriters())
    written, _ = applied(source, tmp_path / "out", CentreWriters())
    unchanged(written, source)
    before, after = stream(source), stream(written)
    for name in before:
        assert after[name].mean(-1).abs().max() < 1e-5
        centred = before[name] - before[name].mean(-1, keepdim=True)
        torch.testing.assert_close(after[name], centred, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [(2, 0, 1, 1), (1,)])
def test_arrange(checkpoint, family, order, tmp_path):
    source = checkpoint(family)
    written, certificate = applied(source, tmp_path / "out", Arrange(order))
    assert written.blueprint.depth == len(order)
    assert certificate.change > 1e-3
    path = source.blueprint.layers_path
    for new, old in enumerate(order):
        mine = written.model.get_submodule(f"{path}.{new}").state_dict()
        theirs = source.model.get_submodule(f"{path}.{old}").state_dict()
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    kinds = getattr(source.config, "layer_types", None)
    if kinds:
        assert list(written.config.layer_types) == [kinds[i] for i in order]


def test_replace_is_a_fold_and_a_drop(checkpoint, family, tmp_path):
    source = checkpoint(family)
    if not claims(family, "fold_map"):
        return refused(source, "fold_map", Replace((1, 2), projection()))
    _, certificate = applied(source, tmp_path / "a", Replace((1, 2), projection()))
    applied(source, tmp_path / "b", FoldMap("0.mlp_out", projection()), DropLayers((1, 2)))
    a, b = ((tmp_path / n / "model.safetensors").read_bytes() for n in "ab")
    assert a == b
    assert certificate.parameters < certificate.parameters_before


def test_everything_together(checkpoint, family, tmp_path):
    """Moves that speak of what others changed begin a new stage; all stages are held to hooks."""
    source = checkpoint(family)
    moves = [FoldReader("1.mlp_in", projection()), *all_norms(source)]
    if claims(family, "centre"):
        moves.append(CentreWriters())
    if claims(family, "rotate"):
        moves.append(Rotate(orthogonal(keep_ones=layer_norms(source))))
    if claims(family, "fold_map"):
        moves.append(FoldMap("1.mlp_out", projection(2)))
    moves += [Arrange((0, 1, 1, 2)), DropLayers((0,)), FoldReader("1.attn_in", projection(1))]
    written, _ = applied(source, tmp_path / "out", *moves)
    assert written.blueprint.depth == 3
