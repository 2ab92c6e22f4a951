"""Tables for the terminal and pages for the browser."""

from __future__ import annotations

from gramian.report.page import document, page, write_page, write_report
from gramian.report.section import Figure, Section, Series, Table

__all__ = [
    "Figure",
    "Section",
    "Series",
    "Table",
    "document",
    "page",
    "write_page",
    "write_report",
]
