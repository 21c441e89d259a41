"""A process that trains one run of the paper's: `python -m firstspike.paper.worker`, as `training.worker`."""

from firstspike.paper.runs import recorded
from firstspike.training.worker import serve

if __name__ == "__main__":
    serve(recorded)
