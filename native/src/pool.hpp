// Threads that wait for numbered tasks.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace firstspike {

class Workers {
  public:
    explicit Workers(int threads) {
        for (int number = 1; number < threads; ++number) threads_.emplace_back([this, number] { wait(number); });
    }
    ~Workers() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            ending_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    // task(number, worker) for each number below `count`, over all threads; returns when all are done.
    void run(int64_t count, const std::function<void(int64_t, int)>& task) {
        if (threads_.empty() || count <= 1) {
            for (int64_t number = 0; number < count; ++number) task(number, 0);
            return;
        }
        {
            std::lock_guard<std::mutex> lock(mutex_);
            task_ = &task;
            count_ = count;
            next_.store(0);
            busy_ = static_cast<int>(threads_.size());
            ++round_;
        }
        wake_.notify_all();
        work(0);
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return busy_ == 0; });
        task_ = nullptr;
    }

  private:
    void work(int worker) {
        for (int64_t number; (number = next_.fetch_add(1)) < count_;) (*task_)(number, worker);
    }
    void wait(int worker) {
        int64_t seen = 0;
        for (;;) {
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return ending_ || round_ != seen; });
                if (ending_) return;
                seen = round_;
            }
            work(worker);
            std::lock_guard<std::mutex> lock(mutex_);
            if (--busy_ == 0) done_.notify_one();
        }
    }

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(int64_t, int)>* task_ = nullptr;
    int64_t count_ = 0, round_ = 0;
    std::atomic<int64_t> next_{0};
    int busy_ = 0;
    bool ending_ = false;
};

}  // namespace firstspike
