"""Reading of results folders of `eigentime bench`.

Read in this order: `quantity` (what is measured), `cell` (its measurements at a level under a
load, and their summaries by blocks) and `results` (all of them). Below them are `folder`,
`manifest` and `tables` (the files and their validation) and `samples` (their rows, stored once).
"""

from eigentime_report.results.cell import Cell, Replicates
from eigentime_report.results.quantity import Quantity
from eigentime_report.results.results import Results, load
from eigentime_report.results.tables import FolderError

__all__ = ["Cell", "FolderError", "Quantity", "Replicates", "Results", "load"]
