"""Documents, chat templates, and packing into batches of tokens."""

from __future__ import annotations

from gramian.data.alignment import AlignedPacking, PairedBatch, same_windows
from gramian.data.batch import NOWHERE, Batch, Total
from gramian.data.chat import ChatTemplate, render, template_digest
from gramian.data.document import Document
from gramian.data.documents import Documents, documents
from gramian.data.packing import Packing

__all__ = [
    "NOWHERE",
    "AlignedPacking",
    "Batch",
    "ChatTemplate",
    "Document",
    "Documents",
    "Packing",
    "PairedBatch",
    "Total",
    "documents",
    "render",
    "same_windows",
    "template_digest",
]
