"""Documents, chat templates, and packing into batches of tokens."""

from __future__ import annotations

from gramian.data.batch import NOWHERE, Batch, Total
from gramian.data.chat import ChatTemplate, render, template_digest
from gramian.data.document import Document
from gramian.data.documents import Documents, documents
from gramian.data.packing import Packing

__all__ = [
    "NOWHERE",
    "Batch",
    "ChatTemplate",
    "Document",
    "Documents",
    "Packing",
    "Total",
    "documents",
    "render",
    "template_digest",
]
