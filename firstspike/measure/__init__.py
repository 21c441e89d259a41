"""What a trained network costs and achieves: accuracy, latency, spikes."""

from firstspike.measure.evaluate import Measures, evaluate

__all__ = ["Measures", "evaluate"]
