"""The AMOS node among SpikingJelly's."""

import pytest
import torch
from torch import nn

pytest.importorskip(
    "spikingjelly", reason="needs spikingjelly 2.0 (pip install --no-deps spikingjelly==2.0.0 loguru)"
)

from spikingjelly.activation_based import functional, layer

from firstspike.errors import FirstspikeError
from firstspike.export.spikingjelly import AMOSNode, to_spikingjelly
from firstspike.functional import amos
from tests.export.nets import images, small


@pytest.mark.parametrize(
    "kind", ["convolutions", "latency", "event frames", "leaky", "max pooling", "many steps"]
)
def test_the_network_fires_at_the_same_times_in_both_step_modes(kind: str) -> None:
    net = small(kind)
    x = images(net)
    with torch.no_grad():
        ours = net.fuse()(x).spikes
        theirs = to_spikingjelly(net)
        frames = net.encode(x)
        assert torch.equal(theirs(frames), ours)
        functional.reset_net(theirs)
        assert torch.equal(theirs(frames), ours), "after a reset it starts anew"
        functional.reset_net(theirs)
        functional.set_step_mode(theirs, "s")
        assert torch.equal(torch.stack([theirs(frame) for frame in frames]), ours)


@pytest.mark.parametrize("tau", [None, 2.0])
@pytest.mark.parametrize("training", [True, False])
def test_both_step_modes_have_the_gradient_of_ours(tau: float | None, training: bool) -> None:
    current = torch.randn(5, 3, 4, 6, dtype=torch.float64) * 0.7
    weights = torch.randn_like(current)
    found = []
    for mode in ("ours", "m", "s"):
        leaf = current.clone().requires_grad_()
        node = AMOSNode(tau=tau, T=5, step_mode="s" if mode == "s" else "m").train(training)
        match mode:
            case "ours":
                spikes = amos(leaf, force_last=training, tau=tau)
            case "m":
                spikes = node(leaf)
            case _:
                spikes = torch.stack([node(frame) for frame in leaf])
        (spikes * weights).sum().backward()
        found.append((spikes.detach(), leaf.grad))
    for spikes, grad in found[1:]:
        assert torch.equal(spikes, found[0][0])
        torch.testing.assert_close(grad, found[0][1])


def test_a_network_of_theirs_trains_with_it() -> None:
    hidden = [layer.Conv2d(1, 8, 3, padding=1), AMOSNode(), layer.AvgPool2d(2), layer.Flatten()]
    net = nn.Sequential(*hidden, layer.Linear(128, 4), AMOSNode())
    functional.set_step_mode(net, "m")
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    labels = torch.arange(64) % 4
    x = torch.rand(4, 8, 8)[labels][:, None] + 0.1 * torch.rand(64, 1, 8, 8)
    weights = torch.linspace(1, 0.2, 5)[:, None, None]
    losses = []
    for _ in range(30):
        logits = (net(x.expand(5, *x.shape)) * weights).sum(0)
        loss = nn.functional.mse_loss(logits, nn.functional.one_hot(labels, 4).float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        functional.reset_net(net)
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


def test_a_forgotten_reset_is_said() -> None:
    node = AMOSNode(step_mode="m").eval()
    node(torch.rand(3, 2, 4))
    with pytest.raises(FirstspikeError, match="reset_net"):
        node(torch.rand(3, 2, 4))
    functional.reset_net(node)
    node(torch.rand(3, 5, 4))


def test_single_steps_have_to_know_the_last_one_while_training() -> None:
    with pytest.raises(FirstspikeError, match=r"AMOSNode\(T="):
        AMOSNode()(torch.rand(2, 4))
    assert AMOSNode(force_last=False)(torch.rand(2, 4)).shape == (2, 4)
    assert AMOSNode().eval()(torch.rand(2, 4)).shape == (2, 4)


def test_single_steps_can_be_followed_by_many() -> None:
    current = torch.randn(6, 2, 3, 4)
    node = AMOSNode(force_last=False)
    first = node(current[0])
    node.step_mode = "m"
    spikes = torch.cat([first[None], node(current[1:])])
    assert torch.equal(spikes, amos(current))
