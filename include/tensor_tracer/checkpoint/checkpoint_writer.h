#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/manifest.h"
#include "tensor_tracer/checkpoint/safetensors.h"

namespace tt::checkpoint {

/// Names in the folder of checkpoints that begin so are removed by the next save.
inline constexpr const char* kUnfinished = ".saving-";

/// One file of a checkpoint, in memory.
struct FileContents {
  std::string name;
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The result of a save.
struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string path;
  std::uint64_t bytes = 0;
  double seconds = 0;  // on the thread of the writer
};

/// The checkpoints that stay after a save: the `last` newest (0: all), and the `best` with the
/// smallest validation loss.
struct Retention {
  std::int64_t last = 0;
  std::int64_t best = 0;
};

/// Writes the checkpoints of one rank into a folder that all ranks see, on a separate thread. A
/// save writes into a hidden folder. Each rank leaves a list of its files there; rank 0 waits for
/// the lists, writes the manifest, gives the folder its name (step_00000100) with one rename, and
/// removes old checkpoints. So at every moment either the old checkpoints are there, or the new one
/// too; a crash leaves a hidden folder, which the next save removes. Thread: that of the trainer.
class CheckpointWriter {
 public:
  /// The folder exists.
  CheckpointWriter(std::string folder, int rank, int ranks, Retention retention);
  ~CheckpointWriter();  // gives up a save that waits for other ranks
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Rank 0: makes the hidden folder of a save and removes those of older saves. Returns its path.
  /// Error: the folder cannot be made. REQUIRES: no save is running.
  base::Result<std::string> prepare(std::int64_t step) const;

  /// Starts to write. `hidden`: the folder of prepare(), the same on every rank. `manifest`: used
  /// by rank 0; its files are added. REQUIRES: no save is running.
  void start(std::string hidden, std::vector<FileContents> files, Manifest manifest);

  /// True if a save was started and wait() was not called since.
  bool is_open() const { return thread_.joinable(); }
  /// True if a save was started and has ended.
  bool has_ended() const { return is_open() && has_ended_; }
  /// Rank 0: ends a save that waits for other ranks. Call it if a rank has failed, because its list
  /// may be missing.
  void give_up() { gives_up_ = true; }
  /// The result of the save. On rank 0: of all ranks; elsewhere: of this rank's files. REQUIRES:
  /// is_open().
  base::Result<SavedCheckpoint> wait();

 private:
  base::Result<SavedCheckpoint> save(const std::string& hidden,
                                     const std::vector<FileContents>& files, Manifest manifest);
  base::Result<std::vector<FileFacts>> write_files(const std::string& hidden,
                                                   const std::vector<FileContents>& files) const;
  base::Status add_files_of_others(const std::string& hidden, std::vector<FileFacts>& files) const;
  base::Result<std::string> publish(const std::string& hidden, std::vector<FileFacts> files,
                                    Manifest& manifest) const;
  base::Result<std::string> put_in_place(const std::string& hidden, std::int64_t step) const;
  void remove_old(const std::string& saved) const;

  const std::string folder_;
  const int rank_, ranks_;
  const Retention retention_;
  std::thread thread_;
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> gives_up_ = false;
  base::Result<SavedCheckpoint> result_ = SavedCheckpoint{};  // guarded by has_ended_
};

}  // namespace tt::checkpoint
