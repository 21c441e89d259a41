// Random networks through the engine and through the plainest code there is: every spike time must be the same.
// Weights and inputs are small whole numbers, so that float32 sums are exact. Meant to be built with sanitizers:
// tests/inference/test_sanitizers.py does. Usage: fuzz [rounds] [seed]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "../src/engine.hpp"

using namespace firstspike;

namespace {

std::mt19937 random_bits;
int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_bits); }

struct Net {
    std::vector<LayerSpec> specs;
    std::vector<std::vector<float>> weights_f32;
    std::vector<std::vector<int8_t>> weights_i8;
    int T;
    Encoding encoding;
};

// A layer of the given input shape, and the shape after it (with pooling).
void add_layer(Net& net, int& channels, int& height, int& width, bool last, bool int8) {
    LayerSpec spec;
    spec.channels = channels;
    spec.height = height;
    spec.width = width;
    spec.most = 1;
    const bool linear = last || between(0, 2) == 0;
    if (!linear) {
        spec.padding = between(0, 2);
        spec.kernel = between(1, std::min(5, std::min(height, width) + 2 * spec.padding));
    }
    spec.outputs = last ? between(2, 12) : between(1, between(0, 3) ? 40 : 200);
    const int taps = linear ? height * width : spec.kernel * spec.kernel;
    const size_t count = static_cast<size_t>(spec.outputs) * channels * taps;
    net.weights_f32.emplace_back(int8 ? 0 : count);
    net.weights_i8.emplace_back(int8 ? count : 0);
    for (float& weight : net.weights_f32.back()) weight = static_cast<float>(between(-8, 8));
    for (int8_t& weight : net.weights_i8.back()) weight = static_cast<int8_t>(between(-127, 127));
    spec.weight_count = static_cast<int64_t>(count);
    spec.tau = between(0, 3) == 0 ? 2.0f : 0.0f;
    const int size = int8 ? 400 : 20;
    const bool edge = !(spec.tau > 0) && between(0, 1) == 0;  // sums that meet the threshold exactly
    for (int out = 0; out < spec.outputs; ++out) {
        spec.bias.push_back(spec.tau > 0 ? static_cast<float>(between(-3, 3)) : 0.0f);
        spec.unit.push_back(1.0f);
    }
    for (int at = 0; at < net.T * spec.outputs; ++at) {
        const int theta = between(-size / 4, size);
        if (int8 && !(spec.tau > 0))
            spec.theta_i32.push_back(theta);
        else
            spec.theta_f32.push_back(static_cast<float>(theta) + (edge ? 0.0f : 0.3f));
    }
    channels = spec.outputs;
    height = linear ? 1 : height + 2 * spec.padding - spec.kernel + 1;
    width = linear ? 1 : width + 2 * spec.padding - spec.kernel + 1;
    const int pool = last ? 1 : between(1, std::min(3, std::min(height, width)));
    spec.saturate = between(0, 3) == 0;
    for (int y = 0; y < height; ++y) spec.to_row.push_back(y / pool < height / pool ? y / pool : -1);
    for (int x = 0; x < width; ++x) spec.to_col.push_back(x / pool < width / pool ? x / pool : -1);
    height /= pool;
    width /= pool;
    net.specs.push_back(spec);
}

Net make() {
    Net net;
    net.T = between(1, 6);
    net.encoding = static_cast<Encoding>(between(0, 2));
    int channels = between(1, 5), height = between(1, 12), width = between(1, 12);
    const int layers = between(1, 4);
    int most = 1;
    for (int layer = 0; layer < layers; ++layer) {
        const bool analog = layer == 0 && net.encoding != Encoding::latency;
        add_layer(net, channels, height, width, layer == layers - 1, !analog && between(0, 1));
        net.specs.back().most = most;
        most = net.specs.back().saturate ? 1 : 9;
    }
    for (size_t layer = 0; layer < net.specs.size(); ++layer) {
        if (!net.weights_f32[layer].empty()) net.specs[layer].weights_f32 = net.weights_f32[layer].data();
        if (!net.weights_i8[layer].empty()) net.specs[layer].weights_i8 = net.weights_i8[layer].data();
    }
    return net;
}

struct Plain {
    std::vector<std::vector<double>> sum, membrane;
    std::vector<std::vector<int>> times;
    int steps = 0;
};

// The definition, in loops. Inputs are [T][C][H][W].
Plain run_plain(const Net& net, const std::vector<double>& frames) {
    Plain state;
    const LayerSpec& first = net.specs[0];
    const size_t image = static_cast<size_t>(first.channels) * first.height * first.width;
    for (const LayerSpec& spec : net.specs) {
        const size_t neurons = static_cast<size_t>(spec.outputs) * spec.to_row.size() * spec.to_col.size();
        state.sum.emplace_back(neurons, 0.0);
        state.membrane.emplace_back(neurons, 0.0);
        state.times.emplace_back(neurons, net.T);
    }
    for (int t = 0; t < net.T; ++t) {
        std::vector<double> input(frames.begin() + static_cast<long>(t * image),
                                  frames.begin() + static_cast<long>((t + 1) * image));
        bool fired = false;
        for (size_t l = 0; l < net.specs.size(); ++l) {
            const LayerSpec& spec = net.specs[l];
            const int oh = static_cast<int>(spec.to_row.size()), ow = static_cast<int>(spec.to_col.size());
            const int kh = spec.kernel ? spec.kernel : spec.height, kw = spec.kernel ? spec.kernel : spec.width;
            std::vector<double> next;
            if (l + 1 < net.specs.size())
                next.assign(static_cast<size_t>(net.specs[l + 1].channels) * net.specs[l + 1].height *
                                net.specs[l + 1].width,
                            0.0);
            for (int o = 0; o < spec.outputs; ++o)
                for (int y = 0; y < oh; ++y)
                    for (int x = 0; x < ow; ++x) {
                        double current = 0;
                        for (int c = 0; c < spec.channels; ++c)
                            for (int ky = 0; ky < kh; ++ky)
                                for (int kx = 0; kx < kw; ++kx) {
                                    const int iy = y + ky - spec.padding, ix = x + kx - spec.padding;
                                    if (iy < 0 || ix < 0 || iy >= spec.height || ix >= spec.width) continue;
                                    const size_t at = ((static_cast<size_t>(o) * spec.channels + c) * kh + ky) * kw + kx;
                                    const double weight =
                                        spec.weights_i8 ? spec.weights_i8[at] : static_cast<double>(spec.weights_f32[at]);
                                    current += weight * input[(static_cast<size_t>(c) * spec.height + iy) * spec.width + ix];
                                }
                        const size_t n = (static_cast<size_t>(o) * oh + y) * ow + x;
                        // A direct model's first layer holds its constant current, and theta is made for that.
                        const bool constant = l == 0 && net.encoding == Encoding::direct;
                        state.sum[l][n] = constant ? current : state.sum[l][n] + current;
                        double& h = state.membrane[l][n];
                        h = spec.tau > 0 ? h + (current + spec.bias[static_cast<size_t>(o)] - h) / spec.tau
                                         : state.sum[l][n];
                        const size_t at = static_cast<size_t>(t) * spec.outputs + o;
                        const double theta = spec.theta_i32.empty() ? static_cast<double>(spec.theta_f32[at]) : spec.theta_i32[at];
                        if (h < theta || state.times[l][n] != net.T) continue;
                        state.times[l][n] = t;
                        if (l + 1 == net.specs.size()) fired = true;
                        const int row = spec.to_row[static_cast<size_t>(y)], col = spec.to_col[static_cast<size_t>(x)];
                        if (next.empty() || row < 0 || col < 0) continue;
                        double& to = next[(static_cast<size_t>(o) * net.specs[l + 1].height + row) * net.specs[l + 1].width + col];
                        to = spec.saturate ? 1 : to + 1;
                    }
            input = next;
        }
        state.steps = t + 1;
        if (fired) break;
    }
    return state;
}

void compare(const Net& net, const char* isa) {
    const LayerSpec& first = net.specs[0];
    const size_t image = static_cast<size_t>(first.channels) * first.height * first.width;
    const bool latency = net.encoding == Encoding::latency, frames = net.encoding == Encoding::frames;
    // Whole numbers on their own heap block, so that reading beyond them is seen.
    std::vector<float> given(image * (frames ? static_cast<size_t>(net.T) : 1));
    const int sparse = between(0, 4);
    for (float& value : given)
        value = latency ? static_cast<float>(between(0, 4)) / 4 : static_cast<float>(between(0, 4) < sparse ? 0 : between(-2, 3));
    std::vector<double> expanded;
    for (int t = 0; t < net.T; ++t)
        for (size_t at = 0; at < image; ++at)
            expanded.push_back(latency  ? std::nearbyint((1.0f - given[at]) * static_cast<float>(net.T - 1)) == t
                               : frames ? given[static_cast<size_t>(t) * image + at]
                                        : given[at]);
    const Model model(net.specs, net.T, net.encoding, std::vector<float>(static_cast<size_t>(first.channels), 0.0f),
                      std::vector<float>(static_cast<size_t>(first.channels), 1.0f), isa);
    Workers workers(between(1, 2));
    Run run(model, &workers);
    const Plain expected = run_plain(net, expanded);
    for (int again = 0; again < 2; ++again) {  // nothing may be left over from the run before
        Answer answer;
        if (run.classify(given.data(), image, Ties::potential, answer) != Input::good || answer.steps != expected.steps)
            throw std::runtime_error("other steps");
        for (size_t layer = 0; layer < net.specs.size(); ++layer) {
            std::vector<uint8_t> times(expected.times[layer].size());
            run.times(layer, times.data());
            for (size_t at = 0; at < times.size(); ++at)
                if (times[at] != expected.times[layer][at])
                    throw std::runtime_error("layer " + std::to_string(layer + 1) + " fires at other times");
        }
    }
}

// One number of a good description changed: refused, or harmless, but never out of bounds.
int lie(Net net) {
    LayerSpec& spec = net.specs[static_cast<size_t>(between(0, static_cast<int>(net.specs.size()) - 1))];
    const int values[] = {-1, 0, 1, 2, 7, 20, 70000, 2147483647};
    int32_t* fields[] = {&spec.channels, &spec.height, &spec.width, &spec.outputs, &spec.kernel, &spec.padding, &spec.most};
    *fields[between(0, 6)] = values[between(0, 7)];
    try {
        const size_t channels = static_cast<size_t>(std::clamp(net.specs[0].channels, 0, 1 << 16));
        const Model model(net.specs, net.T, net.encoding, std::vector<float>(channels, 0.0f),
                          std::vector<float>(channels, 1.0f), "");
        for (const Layer& layer : model.layers)
            if (int64_t{layer.grid.rows} * layer.grid.cols > 4096) return 0;  // possible, and slow
        Run run(model, nullptr);
        std::vector<float> image(model.image_size() * static_cast<size_t>(net.T), 0.5f);
        Answer answer;
        run.classify(image.data(), model.image_size(), Ties::strict, answer);
    } catch (const std::invalid_argument&) {
        return 1;
    } catch (const std::length_error&) {
        return 1;
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const int rounds = count > 1 ? std::atoi(words[1]) : 300, seed = count > 2 ? std::atoi(words[2]) : 0;
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
        random_bits.seed(static_cast<unsigned>(seed + round));
        const Net net = make();
        for (const char* isa : {"portable", "avx2", "avx512"}) {
            if (!find_kernels(isa)) continue;
            try {
                compare(net, isa);
            } catch (const std::exception& error) {
                std::printf("seed %d, %s: %s\n", seed + round, isa, error.what());
                return 1;
            }
        }
        refused += lie(net);
    }
    std::printf("%d networks, all as they should be; %d lies refused\n", rounds, refused);
    return refused > rounds / 20 ? 0 : 1;
}
