"""What a linear map is: fourteen kinds, one set of verbs."""

from gramian.maps.affine import Affine
from gramian.maps.blast import Blast
from gramian.maps.block_diagonal import BlockDiagonal
from gramian.maps.chain import Chain
from gramian.maps.dense import Dense
from gramian.maps.diagonal import Diagonal
from gramian.maps.fjlt import fjlt
from gramian.maps.hadamard import Hadamard
from gramian.maps.identity import Identity
from gramian.maps.identity_plus import IdentityPlus
from gramian.maps.linear_map import LinearMap
from gramian.maps.low_rank import LowRank
from gramian.maps.monarch import Monarch
from gramian.maps.permutation import Permutation
from gramian.maps.sparse import Sparse
from gramian.maps.storage import load_map, map_from
from gramian.maps.sum import Sum
from gramian.maps.tags import Tag

__all__ = [
    "Affine",
    "Blast",
    "BlockDiagonal",
    "Chain",
    "Dense",
    "Diagonal",
    "Hadamard",
    "Identity",
    "IdentityPlus",
    "LinearMap",
    "LowRank",
    "Monarch",
    "Permutation",
    "Sparse",
    "Sum",
    "Tag",
    "fjlt",
    "load_map",
    "map_from",
]
