"""The paper's experiments on Fashion-MNIST as recipes, made from the ablation's."""

from dataclasses import replace

from firstspike.functional.decoding import Decay
from firstspike.nn import Normalisation
from firstspike.training import Recipe, get_recipe
from firstspike.training.loss import Decoder, Loss
from firstspike.training.recipe import NetConfig, Unit

COMPONENTS = ("baseline", "twd", "init", "init-twd", "pool-twd", "init-pool-twd", "norm", "full")
DEPTHS = (11, 5, 8, 6, 7, 9, 10)
"""In the order they are trained in: the claim is about the deepest."""
GAMMAS: tuple[tuple[Decay, float], ...] = (
    ("exponential", 1.5),
    ("exponential", 2.0),
    ("exponential", 3.0),
    ("exponential", 5.0),
    ("linear", 1.0),
    ("linear", 2.0),
    ("linear", 3.0),
    ("linear", 5.0),
)


EPOCHS, DEPTH_EPOCHS = 30, 20
"""Of the sweeps. Half the epochs of the named recipes, so that all of them fit in some minutes of a GPU; the
schedule spans them. The accuracy table alone is of the named recipes as they are."""
DEPTH_LR = 0.03
"""Of the deep networks. At 0.1, eleven layers from ETTFS-init learn for two epochs, and then all outputs tie."""


def of_ablation(name: str) -> Recipe:
    """A row of the component ablation: SCNN5 on Fashion-MNIST, T = 8, for as long as all sweeps take."""
    return replace(get_recipe(f"ablation-{name}"), epochs=EPOCHS)


def full() -> Recipe:
    """All components together."""
    return of_ablation("full")


def components() -> dict[str, Recipe]:
    """The eight rows of the component ablation."""
    return some(*COMPONENTS)


def some(*names: str) -> dict[str, Recipe]:
    """Some rows of the component ablation."""
    return {name: of_ablation(name) for name in names}


def time_steps() -> dict[str, Recipe]:
    return {str(T): replace(full(), name=f"time-steps-{T}", T=T) for T in range(2, 13)}


def variances() -> dict[str, Recipe]:
    recipe = full()
    return {
        str(v): replace(recipe, name=f"variance-{v}", normalisation=replace(recipe.normalisation, variance=v))
        for v in (0.25, 0.5, 1.0, 2.0, 4.0)
    }


def rates() -> dict[str, Recipe]:
    """Rate coding by either reset, beside the whole method."""
    units: dict[str, Unit] = {"rate-hard": "rate-hard", "rate-soft": "rate-soft", "relu": "relu"}
    recipe = full()
    made = {
        label: replace(recipe, name=f"coding-{label}", network=replace(recipe.network, unit=unit))
        for label, unit in units.items()
    }
    return {**made, "full": recipe}


def depths() -> dict[str, Recipe]:
    """Two convolutions and ever more dense layers, from either initialisation, with nothing normalised."""
    made = {}
    for depth in DEPTHS:
        architecture = f"C20K5-P2-C40K5-P2-{{FC400}}*{depth - 3}-FC10"
        for init in ("kaiming", "ettfs"):
            made[f"{depth} {init}"] = replace(
                full(),
                name=f"depth-{depth}-{init}",
                epochs=DEPTH_EPOCHS,
                network=NetConfig(architecture),
                normalisation=Normalisation(kind="none", gain=False, bias=False, init=init),
                optimizer=replace(full().optimizer, lr=DEPTH_LR),
            )
    return made


def gammas() -> dict[str, Recipe]:
    made = {}
    for decay, gamma in GAMMAS:
        decoder = Decoder(decay=decay, gamma=gamma)
        made[f"{decay} {gamma:g}"] = replace(full(), name=f"gamma-{decay}-{gamma:g}", decoder=decoder)
    return made


def decoders() -> dict[str, Recipe]:
    """The whole method under either temporal decoder, and with the first-spike one (our stand-in for TQ-TTFS's)."""
    first = replace(
        full(),
        name="decoder-first-spike",
        decoder=Decoder(kind="first-spike"),
        loss=Loss(mse=0.0, cross_entropy=1.0),
    )
    steep = gammas()["exponential 3"]
    rows = some("baseline", "twd", "init", "init-twd")
    return {**rows, "full-first-spike": first, "full": full(), "full-gamma-3": steep}
