"""Results folders of `eigentime bench`, read.

Read in this order: `quantity` (what is measured), `cell` (what was measured of it at a level under a
load, and its summaries by blocks) and `results` (all of it). Below them are `folder`, `manifest` and `tables`
(what is on the disk, and what has to be) and `samples` (their rows, kept once).
"""

from eigentime_report.results.cell import Cell, Replicates
from eigentime_report.results.quantity import Quantity
from eigentime_report.results.results import Results, load
from eigentime_report.results.tables import FolderError

__all__ = ["Cell", "FolderError", "Quantity", "Replicates", "Results", "load"]
