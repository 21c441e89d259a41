"""What can stand behind a network's synapses: neurons that spike at most once, and the baselines."""

from firstspike.models.network import Network
from firstspike.models.rate import RateTwin
from firstspike.models.twin import Twin

UNITS = ("spike", "relu", "rate-hard", "rate-soft")


def as_unit(net: Network, unit: str) -> Network | Twin:
    """The network itself (`spike`), or its twin of another unit around the same weights."""
    match unit:
        case "relu":
            return Twin(net)
        case "rate-hard":
            return RateTwin(net, "hard")
        case "rate-soft":
            return RateTwin(net, "soft")
        case _:
            return net
