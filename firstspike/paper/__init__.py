"""The paper's tables and figures, each made from run folders by a command."""

from firstspike.paper.keep import keep_all
from firstspike.paper.make import Settings, make, train_all
from firstspike.paper.registry import ENTRIES
from firstspike.paper.report import write_results

__all__ = ["ENTRIES", "Settings", "keep_all", "make", "train_all", "write_results"]
