"""The paper's tables and figures, each made from run folders by a command."""

from firstspike.paper.make import Settings, make, train_all
from firstspike.paper.registry import ENTRIES
from firstspike.paper.report import write_results

__all__ = ["ENTRIES", "Settings", "make", "train_all", "write_results"]
