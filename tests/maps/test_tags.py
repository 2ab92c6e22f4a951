"""Facts are declared, checked on request, and passed on only where they hold."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, Diagonal, Identity, IdentityPlus, LowRank, Permutation, Tag

from .zoo import normal, orthogonal, projector

Q = Dense(orthogonal(1, 4), tags={Tag.ORTHOGONAL})
P = Dense(orthogonal(2, 4), tags={Tag.ORTHOGONAL})
S = Dense(normal(3, 4, 4) + normal(3, 4, 4).T, tags={Tag.SYMMETRIC})


@pytest.mark.parametrize("tag", list(Tag))
def test_a_wrong_tag_is_found(tag: Tag) -> None:
    wrong = Dense(normal(1, 4, 4), tags={tag})
    with pytest.raises(GramianError, match=f"declared {tag} and is off by .* drop the tag"):
        wrong.check_tags()


def test_right_tags_pass_and_return_the_map() -> None:
    assert Q.check_tags(1e-12) is Q
    assert S.check_tags(0) is S
    eraser = IdentityPlus(projector(1, 4, 2), tags=["projection", "symmetric"])  # type: ignore
    assert eraser.check_tags(1e-12) is eraser


def test_the_defect_is_relative() -> None:
    assert Dense(3 * torch.eye(4).double()).tag_defect("orthogonal") == pytest.approx(8.0)
    skew = Dense(torch.tensor([[0.0, 1e6], [-1e6, 0.0]]))
    assert skew.tag_defect(Tag.SYMMETRIC) == pytest.approx(2.0)
    assert Dense(2 * torch.eye(3)).tag_defect(Tag.PROJECTION) == pytest.approx(1.0)
    assert Dense(torch.zeros(3, 3)).tag_defect(Tag.PROJECTION) == 0.0
    assert Dense(torch.zeros(3, 2)).tag_defect(Tag.SYMMETRIC) == float("inf")


def test_a_nan_never_passes() -> None:
    with pytest.raises(GramianError, match="off by nan"):
        Dense(torch.full((2, 2), float("nan")), tags={Tag.ORTHOGONAL}).check_tags(1e9)


def test_what_kinds_are_by_nature() -> None:
    assert Identity(3).tags == set(Tag)
    assert Diagonal(torch.ones(3)).tags == {Tag.SYMMETRIC}
    assert Permutation(torch.tensor([1, 0])).tags == {Tag.ORTHOGONAL}


def test_products() -> None:
    assert (Q @ P).tags == {Tag.ORTHOGONAL}
    assert (Q @ Permutation(torch.arange(4).flip(0))).tags == {Tag.ORTHOGONAL}
    assert (Q @ S).tags == set()
    assert (S @ S).tags == set()
    assert (S @ Identity(4)).tags == {Tag.SYMMETRIC}
    signs = Diagonal(torch.tensor([1.0, -1, 1, -1]).double(), tags={Tag.ORTHOGONAL})
    assert (signs @ signs).tags == {Tag.ORTHOGONAL, Tag.SYMMETRIC}
    chain = (Q @ P).inverse()
    assert chain.tags == {Tag.ORTHOGONAL}
    torch.testing.assert_close(chain.to_dense(), (Q.weight @ P.weight).T)


def test_pinv_of_an_oblique_projection_is_no_projection() -> None:
    left, right = torch.tensor([[1.0], [0.0]]), torch.tensor([[1.0, 5.0]])
    oblique = LowRank(left, right, tags={Tag.PROJECTION}).check_tags()
    assert oblique.pinv().tags == set()
    assert oblique.pinv().tag_defect(Tag.PROJECTION) > 0.1
    plain = IdentityPlus(projector(1, 4, 2), tags={Tag.PROJECTION, Tag.SYMMETRIC})
    assert plain.pinv() is plain


def test_symmetric_inverse_is_exactly_symmetric() -> None:
    inverse = S.inverse()
    assert inverse.tags == {Tag.SYMMETRIC}
    inverse.check_tags(0)


def test_affine_speaks_of_its_linear_part() -> None:
    move = Affine(Dense(Q.weight), torch.ones(4).double(), tags={Tag.ORTHOGONAL})
    assert move.map.tags == move.tags == {Tag.ORTHOGONAL}
    assert (move @ move).tags == {Tag.ORTHOGONAL}
    torch.testing.assert_close(move.inverse().map.to_dense(), Q.weight.T)


def test_bad_tags() -> None:
    with pytest.raises(GramianError, match=r"unknown tag in \['unitary'\]; the tags are orthog"):
        Dense(torch.eye(2), tags={"unitary"})  # type: ignore
    with pytest.raises(GramianError, match=r"shape \(2, 3\) cannot be orthogonal: only a square"):
        Dense(torch.zeros(2, 3), tags={Tag.ORTHOGONAL})
    assert Dense(torch.eye(2)).with_tags("symmetric").tags == {Tag.SYMMETRIC}


def test_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Q.weight = torch.eye(4)  # type: ignore
