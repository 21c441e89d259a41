"""Every table and figure of the paper's: its runs and what is made of them."""

from firstspike.paper import ablation, currents, energy, initialisation, recipes, sets
from firstspike.paper.entry import SEEDS, Entry
from firstspike.paper.latency import latency
from firstspike.training import Recipe, get_recipe


def _small_sets() -> dict[str, Recipe]:
    """The paper's method on MNIST and Fashion-MNIST; our own recipes and other sets come from results/runs."""
    made = {}
    for data, architecture in (
        ("mnist", "FC1"),
        ("mnist", "SCNN1"),
        ("fashion-mnist", "FC2"),
        ("fashion-mnist", "SCNN5"),
    ):
        made[f"{data} {architecture} paper"] = get_recipe(f"{data}-{architecture.lower()}-paper")
    return made


def _none() -> dict[str, Recipe]:
    return {}


_QUICK_SETS = ("fashion-mnist SCNN5 paper",)

_ALL = (
    Entry("accuracy", "Accuracy", "table", _small_sets, sets.accuracy, _QUICK_SETS, needs=()),
    Entry("steps", "Inference steps", "table", _small_sets, sets.steps, _QUICK_SETS, needs=()),
    Entry(
        "energy",
        "Steps, spikes, operations and energy",
        "table",
        lambda: {"rate-hard": recipes.rates()["rate-hard"], **recipes.some("baseline", "full")},
        energy.energy,
        seeds=SEEDS,
    ),
    Entry("ablation", "Component ablation", "table", recipes.components, ablation.components, seeds=SEEDS),
    Entry(
        "time-steps",
        "Time steps",
        "table",
        recipes.time_steps,
        ablation.time_steps,
        ("2", "4", "8", "12"),
        needs=("8",),
    ),
    Entry(
        "variance",
        "Variance of the current",
        "table",
        recipes.variances,
        ablation.variance,
        ("0.25", "1.0", "4.0"),
        needs=("1.0",),
    ),
    Entry("rate", "Rate coding against TTFS", "table", recipes.rates, energy.rate, seeds=SEEDS),
    Entry("currents", "Currents under Kaiming and ETTFS-init", "figure", _none, currents.currents),
    Entry(
        "normalisation",
        "Currents with and without weight normalisation",
        "figure",
        lambda: recipes.some("init-pool-twd", "norm", "full"),
        currents.normalisation,
        diagnosed=True,
        seeds=SEEDS,
    ),
    Entry("gradients", "Gradients under both initialisations", "figure", _none, initialisation.gradients),
    Entry(
        "depth",
        "Depth",
        "figure",
        recipes.depths,
        initialisation.depth,
        tuple(f"{depth} {init}" for depth in (5, 8, 11) for init in ("kaiming", "ettfs")),
        needs=("5 kaiming", "5 ettfs", "11 kaiming", "11 ettfs"),
    ),
    Entry(
        "epochs",
        "Accuracy over epochs",
        "figure",
        lambda: recipes.some("pool-twd", "init-pool-twd", "full"),
        initialisation.epochs,
        seeds=SEEDS,
    ),
    Entry(
        "gamma",
        "Gamma and the two forms of decay",
        "figure",
        recipes.gammas,
        ablation.gamma,
        ("exponential 2", "exponential 3", "linear 1", "linear 3"),
        needs=("linear 1", "exponential 3"),
    ),
    Entry(
        "decoder-steps",
        "Steps: temporal weighting against the first-spike decoder",
        "figure",
        recipes.decoders,
        ablation.decoder_steps,
        seeds=SEEDS,
    ),
    Entry("latency", "Layer by layer against step by step", "figure", _none, latency),
)

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in _ALL}

WORTH = (
    "ablation",
    "decoder-steps",
    "rate",
    "energy",
    "normalisation",
    "epochs",
    "variance",
    "time-steps",
    "depth",
    "gamma",
    "accuracy",
    "steps",
)
"""In which order runs are trained: those of one entry after another, so that a cut leaves whole entries."""
