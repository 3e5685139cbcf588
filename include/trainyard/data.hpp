#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <trainyard/options.hpp>

namespace trainyard {

/// One tensor, trees by name, or a list of trees, nested as a model needs it. A tree may also be empty.
class TensorTree {
 public:
  TensorTree() = default;
  TensorTree(torch::Tensor tensor) : tensor_{std::move(tensor)} {}  // implicit: a tensor is also a tree of one
  TensorTree(std::initializer_list<std::pair<std::string, TensorTree>> named);
  [[nodiscard]] static TensorTree list(std::vector<TensorTree> trees);

  /// The tensor of a tree of one tensor; an undefined tensor for an empty tree. Throws std::invalid_argument for other
  /// trees.
  [[nodiscard]] const torch::Tensor& tensor() const;
  /// The tree of that name, or at that place of a list. Throws std::out_of_range, naming what there is.
  [[nodiscard]] const TensorTree& at(std::string_view name) const;
  [[nodiscard]] const TensorTree& at(std::size_t index) const;
  [[nodiscard]] bool contains(std::string_view name) const;
  /// How many trees it has by name or in its list.
  [[nodiscard]] std::size_t size() const { return children_.size(); }
  /// Adds a tree, or replaces that of the same name. Throws std::invalid_argument for a tensor or a list.
  void set(std::string name, TensorTree tree);

  /// The samples [begin, end) of a tree of `size` samples: views of the tensors, whose first dimension is the sample,
  /// and the trees of lists, which have one for each sample. Throws std::invalid_argument for a tensor or a list of
  /// another size.
  [[nodiscard]] TensorTree samples(std::int64_t begin, std::int64_t end, std::int64_t size) const;

  /// A tree of the same form with `change` applied to each defined tensor.
  [[nodiscard]] TensorTree map(const std::function<torch::Tensor(const torch::Tensor&)>& change) const;

 private:
  torch::Tensor tensor_;
  std::vector<std::pair<std::string, TensorTree>> children_;  // In a list their names are empty.
};

/// The samples of one batch on one rank. The first dimension of inputs and targets is the batch. A module gets all
/// tensors but `ids` on the rank's device.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;  ///< May be undefined.
  torch::Tensor ids;      ///< int64 [B]: the samples' numbers in the data set. On the CPU.
  TensorTree named{};     ///< Further tensors of a model: masks, the boxes of each image, a second image.

  [[nodiscard]] std::int64_t size() const { return ids.size(0); }
  /// The samples [begin, end) of the batch, with TensorTree::samples() of `named`. Throws as that does.
  [[nodiscard]] Batch samples(std::int64_t begin, std::int64_t end) const;
  /// The batch with all tensors but `ids` on `device`. A tensor that is there already is not copied.
  [[nodiscard]] Batch on(torch::Device device) const;
};

/// Samples with numbers. One thread calls at a time, but not always the same one, unless loader_threads() is more than
/// 0: then several may call at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The samples `ids`, in that order, on any device: the trainer moves them to the rank's. ids: int64 [B] on the CPU,
  /// each in [0, size()). A tensor in pinned memory must not change after it was returned, as it is copied to the
  /// device later. May throw: the rank then fails, with what() in its message.
  [[nodiscard]] virtual Batch gather(const torch::Tensor& ids) const = 0;
  /// The samples `ids` for training in epoch `epoch`, from 0: gather(ids) unless overridden. For a data set that crops
  /// or flips its samples at random. The result depends on the samples' numbers, the epoch and the job's seed alone, so
  /// that a run that resumes gets the same batches. Validation calls gather().
  [[nodiscard]] virtual Batch gather_in_epoch(const torch::Tensor& ids, std::int64_t /*epoch*/) const {
    return gather(ids);
  }
  /// Identifies these samples among data sets of equal size: a name, a URI, a version, and the options on which the
  /// samples depend. The fingerprint of checkpoints contains it, so that it must be equal at each start, on every
  /// machine and device. When it is empty, the fingerprint contains the format and the uri or path of training.data
  /// instead, and not its options: a run then resumes although these have changed.
  [[nodiscard]] virtual std::string id() const { return {}; }
  /// The number of classes: every target is a class from 0 on, below this, or negative where the loss leaves it out, as
  /// cross_entropy does with its ignore_index. Where a sample has one integer target, on the CPU, one that is beyond it
  /// ends the job, and the message names the sample. 0: it does not say, or has no classes.
  [[nodiscard]] virtual std::int64_t classes() const { return 0; }
  /// The number of threads that read batches ahead when the job leaves training.data.loaderThreads out.
  ///
  /// More than 0 declares gather() and gather_in_epoch() safe to call from several threads at once: the job may then
  /// ask for any number of threads. 0 declares them unsafe: a job that asks for threads gets one, and any other job
  /// none. Functions that a thread calls ahead must not use torch's default random generator, which the training thread
  /// uses at that time.
  [[nodiscard]] virtual std::int64_t loader_threads() const { return 0; }
};

/// The order in which a training takes its samples, instead of a random one in which each sample is there once: for
/// classes that are rare, for a curriculum, for a part of the samples.
///
/// The ranks have equal samplers, and share each order out among themselves: each of its places goes to one rank. Where
/// training.data.replaceSampler is false, each rank has a sampler of its own and takes the whole of its orders; size()
/// must still be equal on all ranks, unless training.strategy.join is true. One thread at a time calls.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// How many samples an epoch has: at least 1, and always the same number. The data set may have more or fewer.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The samples of epoch `epoch`, from 0: int64 [size()] on the CPU, each a number in [0, size of the training set). A
  /// number may be there several times, or not at all. Called when the epoch's first batch is gathered, which may be
  /// some batches ahead. The tensor must not change after it was returned.
  ///
  /// The result depends only on the epoch and on the arguments with which the sampler was made, and not on torch's
  /// default random generator: a training that resumes asks for the order of its epoch once more. May throw: the rank
  /// then fails, with what() in its message. An example: docs/data.md, "A sampler of your own".
  [[nodiscard]] virtual torch::Tensor order(std::int64_t epoch) const = 0;
};

/// One rank's samples of one epoch, one after another. One thread at a time calls, but not always the same one.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// The next `count` samples. Fewer of them, or none (`return {};`), end the epoch on this rank: next() is not called
  /// again. Where `ids` is undefined, the samples get their numbers in the stream, from 0 on. For the other tensors and
  /// for exceptions see Dataset::gather().
  [[nodiscard]] virtual Batch next(std::int64_t count) = 0;
  /// Passes over the next `count` samples, which a training that resumes in this epoch has had, and returns true.
  /// False, as it is unless overridden, when it has passed over none: the trainer then reads and drops them.
  [[nodiscard]] virtual bool skip(std::int64_t /*count*/) { return false; }
};

/// A training set without a size, such as PyTorch's IterableDataset: each rank reads a share of its own, until it ends.
///
/// The ranks make equally many steps. An epoch ends with the shortest stream, or, where training.strategy.join is true,
/// with the longest. One thread at a time calls. An example: docs/data.md, "Data without a size".
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  /// This rank's samples of epoch `epoch`, from 0, by DataSource::rank and world_size. They depend on these three and
  /// on the job's seed alone, and not on torch's default random generator: a training that resumes asks for the stream
  /// of its epoch once more. The stream is destroyed before the next one is asked for.
  [[nodiscard]] virtual std::unique_ptr<SampleStream> stream(std::int64_t epoch) const = 0;
  /// As Dataset::id(). Equal on all ranks, although their samples are not.
  [[nodiscard]] virtual std::string id() const { return {}; }
  /// As Dataset::classes().
  [[nodiscard]] virtual std::int64_t classes() const { return 0; }
  /// True: with any number of ranks the epoch is one sequence of samples, of which number i belongs to rank i modulo
  /// the number of ranks. A training may then resume within an epoch with another number of ranks. False: it may not.
  [[nodiscard]] virtual bool is_interleaved() const { return false; }
  /// True: a thread beside the training calls next(), two batches ahead, unless training.data.loaderThreads is 0. It
  /// must then not use torch's default random generator. False: only where loaderThreads is more than 0.
  [[nodiscard]] virtual bool reads_ahead() const { return false; }
};

/// Draws `samples` samples an epoch with replacement, as torch.utils.data.WeightedRandomSampler: sample i with the
/// probability weights[i] / sum of all weights. Each epoch and each seed give other draws.
///
/// weights: [size of the training set] of any number type, on any device; finite, not negative, with a sum above 0. Is
/// copied. Throws InvalidJob for other weights, and for `samples` below 1.
[[nodiscard]] std::unique_ptr<Sampler> make_weighted_sampler(const torch::Tensor& weights, std::int64_t samples,
                                                             std::int64_t seed);
/// The samples 0, 1, ... `samples` - 1 in this order, in each epoch. Throws InvalidJob for `samples` below 1.
[[nodiscard]] std::unique_ptr<Sampler> make_sequential_sampler(std::int64_t samples);

/// The job's `training.data`, once its files are on this machine.
struct DataSource {
  std::string format = "synthetic";    ///< training.data.format.
  std::string folder;                  ///< training.data.path, or the folder to which training.data.uri was fetched.
  std::int64_t samples = 60'000;       ///< training.data.samples: the size of a synthetic training set.
  std::int64_t seed = 0;               ///< training.seed.
  torch::Device device = torch::kCPU;  ///< The rank's device.
  /// training.data.options, read in the same way as a model's. An option that nothing asks for fails the job.
  Options options{"{}", "training.data.options"};
  /// This rank and the number of ranks, for a sampler of the rank's own and for an IterableDataset. A Dataset must not
  /// depend on them.
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

/// The samples that a model trains on, and those that it is validated on. Every rank must have the same samples in the
/// same order.
struct Datasets {
  /// May be nullptr where training.task is not fit, and where there is `iterable_train`.
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation{};  ///< nullptr: nothing is validated.
  /// For jobs whose training.task is test or predict. nullptr: they take the validation set.
  std::unique_ptr<Dataset> test{};
  /// The order in which `train` is trained on. nullptr: a random one in each epoch, by training.seed.
  std::unique_ptr<Sampler> sampler{};
  /// The training set in place of `train`, without a sampler.
  std::unique_ptr<IterableDataset> iterable_train{};
};

}  // namespace trainyard
