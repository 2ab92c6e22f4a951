"""Every move is exact on every family that claims it, and refused with a reason on the others."""

from __future__ import annotations

import pytest
import torch

from gramian.errors import GramianError
from gramian.networks import (
    Arrange,
    CentreWriters,
    DropLayers,
    FoldMap,
    FoldNorm,
    FoldReader,
    Plan,
    Replace,
    Rotate,
)
from tests.networks.claims import (
    CLAIMS,
    FAMILIES,
    all_norms,
    applied,
    claims,
    each_family,
    layer_norms,
    orthogonal,
    projection,
    refused,
    unchanged,
)


def test_every_family_says_what_it_takes():
    assert set(CLAIMS) == set(FAMILIES)


@each_family
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


@each_family
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


@each_family
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


@each_family
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


@each_family
def test_replace_is_a_fold_and_a_drop(checkpoint, family, tmp_path):
    source = checkpoint(family)
    if not claims(family, "fold_map"):
        return refused(source, "fold_map", Replace((1, 2), projection()))
    _, certificate = applied(source, tmp_path / "a", Replace((1, 2), projection()))
    applied(source, tmp_path / "b", FoldMap("0.mlp_out", projection()), DropLayers((1, 2)))
    a, b = ((tmp_path / n / "model.safetensors").read_bytes() for n in "ab")
    assert a == b
    assert certificate.parameters < certificate.parameters_before


@each_family
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
