// The engine for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "engine.hpp"

namespace nb = nanobind;
using namespace firstspike;

namespace {

using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const int8_t, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> values(nb::handle source) {
    auto given = nb::cast<nb::ndarray<const T, nb::c_contig, nb::device::cpu>>(source);
    return std::vector<T>(given.data(), given.data() + given.size());
}

// A layer from a dictionary; the arrays have to live until the model is made.
LayerSpec spec(nb::dict from) {
    LayerSpec layer;
    layer.channels = nb::cast<int32_t>(from["channels"]);
    layer.height = nb::cast<int32_t>(from["height"]);
    layer.width = nb::cast<int32_t>(from["width"]);
    layer.outputs = nb::cast<int32_t>(from["outputs"]);
    layer.kernel = nb::cast<int32_t>(from["kernel"]);
    layer.padding = nb::cast<int32_t>(from["padding"]);
    layer.tau = nb::cast<float>(from["tau"]);
    layer.saturate = nb::cast<bool>(from["saturate"]);
    layer.most = nb::cast<int32_t>(from["most"]);
    layer.bias = values<float>(from["bias"]);
    layer.unit = values<float>(from["unit"]);
    layer.to_row = values<int32_t>(from["to_row"]);
    layer.to_col = values<int32_t>(from["to_col"]);
    if (nb::cast<bool>(from["int8"])) {
        auto weights = nb::cast<Bytes>(from["weight"]);
        layer.weights_i8 = weights.data();
        layer.weight_count = static_cast<int64_t>(weights.size());
    } else {
        auto weights = nb::cast<Floats>(from["weight"]);
        layer.weights_f32 = weights.data();
        layer.weight_count = static_cast<int64_t>(weights.size());
    }
    if (nb::cast<bool>(from["int8"]) && !(layer.tau > 0))
        layer.theta_i32 = values<int32_t>(from["theta"]);
    else
        layer.theta_f32 = values<float>(from["theta"]);
    return layer;
}

Encoding encoding_of(const std::string& name) {
    if (name == "direct") return Encoding::direct;
    if (name == "latency") return Encoding::latency;
    if (name == "frames") return Encoding::frames;
    throw std::invalid_argument("unknown encoding " + name);
}

Ties ties_of(bool potential) { return potential ? Ties::potential : Ties::strict; }

[[noreturn]] void refuse(Input input, int64_t sample) {
    const std::string number = std::to_string(sample);
    throw std::invalid_argument(
        input == Input::not_finite
            ? "Sample " + number + " has NaN or infinite values: check where it comes from."
            : "Sample " + number + " has values that latency coding cannot take: it needs pixels in [0, 1].");
}

// The answers of a batch. Arrays are made of them when they are asked for: most callers look at the label only.
class Found {
  public:
    Found(std::shared_ptr<Model> model, size_t batch, bool want_times)
        : model_(std::move(model)),
          batch_(batch),
          numbers_(batch * (2 + model_->layers.size())),
          flags_(std::make_unique<bool[]>(2 * batch)),
          membrane_(batch * static_cast<size_t>(model_->classes)) {
        for (size_t index = 0; want_times && index < model_->layers.size(); ++index)
            times_.emplace_back(batch * neurons(index));
    }

    void take(const Run& run, const Answer& answer, size_t sample) {
        numbers_[sample] = answer.label;
        numbers_[batch_ + sample] = answer.steps;
        flags_[sample] = answer.tied;
        flags_[batch_ + sample] = answer.silent;
        run.spikes(&numbers_[2 * batch_ + sample * model_->layers.size()]);
        run.membrane(&membrane_[sample * static_cast<size_t>(model_->classes)]);
        for (size_t index = 0; index < times_.size(); ++index)
            run.times(index, &times_[index][sample * neurons(index)]);
    }

    nb::object label() { return array(numbers_.data(), {batch_}); }
    nb::object steps() { return array(numbers_.data() + batch_, {batch_}); }
    nb::object tied() { return array(flags_.get(), {batch_}); }
    nb::object silent() { return array(flags_.get() + batch_, {batch_}); }
    nb::object membrane() { return array(membrane_.data(), {batch_, static_cast<size_t>(model_->classes)}); }
    nb::object spikes() { return array(numbers_.data() + 2 * batch_, {batch_, model_->layers.size()}); }
    nb::list times() {
        nb::list layers;
        for (size_t index = 0; index < times_.size(); ++index) {
            const Layer& layer = model_->layers[index];
            std::vector<size_t> shape{batch_, static_cast<size_t>(layer.outputs)};
            if (!layer.linear) {
                shape.push_back(static_cast<size_t>(layer.grid.out_rows));
                shape.push_back(static_cast<size_t>(layer.grid.out_cols));
            }
            layers.append(array(times_[index].data(), shape));
        }
        return layers;
    }

  private:
    size_t neurons(size_t index) const {
        const Layer& layer = model_->layers[index];
        return static_cast<size_t>(layer.outputs) * static_cast<size_t>(layer.grid.positions());
    }

    // Shares this object's memory, and keeps the object.
    template <class T>
    nb::object array(T* data, const std::vector<size_t>& shape) {
        return nb::cast(nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), nb::find(this)));
    }

    std::shared_ptr<Model> model_;
    size_t batch_;
    std::vector<int64_t> numbers_;
    std::unique_ptr<bool[]> flags_;
    std::vector<float> membrane_;
    std::vector<std::vector<uint8_t>> times_;
};

// A model with threads of its own, and for each thread the memory of one run. One call at a time.
class Core {
  public:
    Core(nb::list layers, int T, const std::string& encoding, Floats mean, Floats deviation, int threads,
         const std::string& isa)
        : model_(std::make_shared<Model>(specs(layers), T, encoding_of(encoding),
                                         std::vector<float>(mean.data(), mean.data() + mean.size()),
                                         std::vector<float>(deviation.data(), deviation.data() + deviation.size()),
                                         isa)) {
        if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must be between 1 and 1024");
        workers_ = std::make_unique<Workers>(threads);
        first_ = std::make_unique<Run>(*model_, workers_.get());
    }

    // `address`: of `values` float32 values, [batch, image] or for frames [T, batch, image]. Python has looked at them.
    Found run(uintptr_t address, size_t values, size_t batch, bool potential, bool want_times) {
        const size_t size = model_->image_size();
        const size_t frames = model_->encoding == Encoding::frames ? static_cast<size_t>(model_->T) : 1;
        if (values != frames * batch * size)
            throw std::invalid_argument("the images have another shape than the model takes");
        Found found(model_, batch, want_times);
        const float* data = reinterpret_cast<const float*>(address);
        std::atomic<int64_t> bad{-1};
        std::atomic<Input> why{Input::good};
        {
            nb::gil_scoped_release release;
            std::lock_guard<std::mutex> lock(mutex_);
            const auto one = [&](Run& run, size_t sample) {
                Answer answer;
                const Input input = run.classify(data + sample * size, batch * size, ties_of(potential), answer);
                if (input != Input::good) {
                    bad.store(static_cast<int64_t>(sample));
                    why.store(input);
                    return;
                }
                found.take(run, answer, sample);
            };
            if (batch == 1 || workers_->size() == 1) {
                for (size_t sample = 0; sample < batch; ++sample) one(*first_, sample);
            } else {
                while (runs_.size() < static_cast<size_t>(workers_->size()))
                    runs_.push_back(std::make_unique<Run>(*model_, nullptr));
                workers_->run(static_cast<int64_t>(batch), [&](int64_t sample, int worker) {
                    one(*runs_[static_cast<size_t>(worker)], static_cast<size_t>(sample));
                });
            }
        }
        if (bad.load() >= 0) refuse(why.load(), bad.load());
        return found;
    }

    std::string isa() const { return model_->kernels->name; }
    std::shared_ptr<Model> model() const { return model_; }

  private:
    static std::vector<LayerSpec> specs(nb::list layers) {
        std::vector<LayerSpec> made;
        for (nb::handle layer : layers) made.push_back(spec(nb::cast<nb::dict>(layer)));
        return made;
    }

    std::shared_ptr<Model> model_;
    std::unique_ptr<Workers> workers_;
    std::unique_ptr<Run> first_;
    std::vector<std::unique_ptr<Run>> runs_;
    std::mutex mutex_;
};

// One sample, a frame at a time.
class Stream {
  public:
    explicit Stream(const Core& core) : model_(core.model()), run_(*model_, nullptr) { run_.begin(); }

    void reset() { run_.begin(); }

    // None, or the answer as Core.run gives it for a batch of one.
    nb::object push(uintptr_t address, size_t values, bool potential, bool want_times) {
        if (values != model_->image_size())
            throw std::invalid_argument("the frame has another shape than the model takes");
        if (run_.steps_done() >= model_->T) throw std::invalid_argument("all steps are done");
        bool fired = false;
        const Input input = run_.step(reinterpret_cast<const float*>(address), fired);
        if (input != Input::good) {
            run_.begin();
            refuse(input, 0);
        }
        if (!fired && run_.steps_done() < model_->T) return nb::none();
        Found found(model_, 1, want_times);
        found.take(run_, run_.decide(ties_of(potential)), 0);
        run_.begin();
        return nb::cast(std::move(found));
    }

    int steps_done() const { return run_.steps_done(); }

  private:
    std::shared_ptr<Model> model_;
    Run run_;
};

}  // namespace

NB_MODULE(_core, module) {
    module.doc() = "The event-driven engine of firstspike.";
    nb::class_<Core>(module, "Core")
        .def(nb::init<nb::list, int, const std::string&, Floats, Floats, int, const std::string&>(), nb::arg("layers"),
             nb::arg("T"), nb::arg("encoding"), nb::arg("mean"), nb::arg("deviation"), nb::arg("threads") = 1,
             nb::arg("isa") = "")
        .def("run", &Core::run, nb::arg("address"), nb::arg("values"), nb::arg("batch"), nb::arg("potential"),
             nb::arg("want_times"))
        .def_prop_ro("isa", &Core::isa);
    nb::class_<Found>(module, "Found")
        .def_prop_ro("label", &Found::label)
        .def_prop_ro("steps", &Found::steps)
        .def_prop_ro("tied", &Found::tied)
        .def_prop_ro("silent", &Found::silent)
        .def_prop_ro("membrane", &Found::membrane)
        .def_prop_ro("spikes", &Found::spikes)
        .def_prop_ro("times", &Found::times);
    nb::class_<Stream>(module, "Stream")
        .def(nb::init<const Core&>(), nb::arg("core"))
        .def("push", &Stream::push, nb::arg("address"), nb::arg("values"), nb::arg("potential"), nb::arg("want_times"))
        .def("reset", &Stream::reset)
        .def_prop_ro("steps_done", &Stream::steps_done);
    module.def("instruction_sets", [] {
        std::vector<std::string> found;
        for (const char* name : {"avx512", "avx2", "portable"})
            if (find_kernels(name)) found.emplace_back(name);
        return found;
    });
}
