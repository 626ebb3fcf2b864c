// Loaded before libc: numbers the calls by which a trainer changes what lies below the folder
// CRASH_FOLDER, and ends the process or fails at one of them. Acts only in `… train …`, so not in a
// hub. Environment:
//   COUNT_TO=FILE  adds a line "<number> <call> <path below the folder>" for each
//   CRASH_AT=N     the process ends with exit code 137 at call N, CRASH_HOW=before, half or after
//                  it; half: a write writes the first half of its bytes, other calls do nothing
//   POWER=1        at the crash the power is lost too: a file that was written since its last fsync
//                  loses its second half, and a renaming whose folder had no fsync since is undone,
//                  unless something below the new name was removed
//   FAIL_AT=N      the disk is full: call N, and all later ones that write or make something, fail
//   FAIL_ONCE=1    only call N fails
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kMaxNames = 4096, kCrashed = 137 };

struct Renaming {
  char from[PATH_MAX], to[PATH_MAX];
  unsigned flags;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of all below
static char folder[PATH_MAX], how[16] = "before";
static const char* count_to;
static long crash_at, fail_at, calls;
static int has_power_loss, fails_once, is_full;
static char unsynced[kMaxNames][PATH_MAX];  // files; an empty name is a free place
static struct Renaming renamings[kMaxNames];
static int unsynced_count, renaming_count;

static long number_of(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

static int is_train(void) {
  char line[PATH_MAX] = "";
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
  const ssize_t size = read(fd, line, sizeof line - 1);
  close(fd);
  const size_t first = strlen(line) + 1;
  return size > (ssize_t)first && strcmp(line + first, "train") == 0;
}

__attribute__((constructor)) static void start(void) {
  const char* given = getenv("CRASH_FOLDER");
  if (given == NULL || !is_train()) return;
  snprintf(how, sizeof how, "%s", getenv("CRASH_HOW") == NULL ? "before" : getenv("CRASH_HOW"));
  count_to = getenv("COUNT_TO");
  crash_at = number_of("CRASH_AT");
  fail_at = number_of("FAIL_AT");
  has_power_loss = number_of("POWER") != 0;
  fails_once = number_of("FAIL_ONCE") != 0;
  snprintf(folder, sizeof folder, "%s", given);
}

static int is_below(const char* path, const char* top) {
  const size_t size = strlen(top);
  return size > 0 && strncmp(path, top, size) == 0 && (path[size] == '/' || path[size] == 0);
}

// Of the file that is open.
static void path_of(int fd, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, PATH_MAX - 1);
  path[size < 0 ? 0 : size] = 0;
}

static void whole_path(int base, const char* name, char* path) {
  char start_of[PATH_MAX] = "";
  if (name[0] == '/') {
    snprintf(path, PATH_MAX, "%s", name);
    return;
  }
  if (base != AT_FDCWD)
    path_of(base, start_of);
  else if (getcwd(start_of, sizeof start_of) == NULL)
    start_of[0] = 0;
  if ((size_t)snprintf(path, PATH_MAX, "%s/%s", start_of, name) >= PATH_MAX) path[0] = 0;
}

static void lose_power(void) {
  struct stat facts;
  for (int i = 0; i < unsynced_count; ++i)
    if (unsynced[i][0] != 0 && stat(unsynced[i], &facts) == 0)
      syscall(SYS_truncate, unsynced[i], facts.st_size / 2);
  while (renaming_count-- > 0) {
    const struct Renaming* one = &renamings[renaming_count];
    if (one->to[0] != 0) syscall(SYS_renameat2, AT_FDCWD, one->to, AT_FDCWD, one->from, one->flags);
  }
}

// Other threads wait in begin().
static void crash(void) {
  if (has_power_loss) lose_power();
  _exit(kCrashed);
}

static void count(const char* name, const char* path) {
  char line[PATH_MAX + 64];
  const int size = snprintf(line, sizeof line, "%ld %s %s\n", calls, name, path + strlen(folder));
  const int fd =
      (int)syscall(SYS_openat, AT_FDCWD, count_to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  syscall(SYS_write, fd, line, size);
  close(fd);
}

enum Kind { kTakesSpace, kTakesNone };
enum Turn { kDo, kDoHalf, kFail };

// A call of a file below the folder locks the mutex here and frees it in end().
static enum Turn begin(const char* name, const char* path, enum Kind kind) {
  pthread_mutex_lock(&mutex);
  ++calls;
  if (count_to != NULL) count(name, path);
  if (calls == crash_at && strcmp(how, "half") == 0 && strstr(name, "write") != NULL)
    return kDoHalf;
  if (calls == crash_at && strcmp(how, "after") != 0) crash();
  if (calls == fail_at) is_full = !fails_once;
  return calls == fail_at || (is_full && kind == kTakesSpace) ? kFail : kDo;
}

static long end(long result) {
  const int number = errno;
  if (calls == crash_at) crash();
  pthread_mutex_unlock(&mutex);
  errno = number;
  return result;
}

static long full(void) {
  errno = ENOSPC;
  return end(-1);
}

static void note_written(const char* path) {
  for (int i = 0; i < unsynced_count; ++i)
    if (strcmp(unsynced[i], path) == 0) return;
  if (unsynced_count < kMaxNames) strcpy(unsynced[unsynced_count++], path);
}

static void note_synced(const char* path) {
  for (int i = 0; i < unsynced_count; ++i)
    if (strcmp(unsynced[i], path) == 0) unsynced[i][0] = 0;
  for (int i = 0; i < renaming_count; ++i) {
    char* slash = strrchr(renamings[i].to, '/');
    const size_t size = slash == NULL ? 0 : (size_t)(slash - renamings[i].to);
    if (size == strlen(path) && strncmp(path, renamings[i].to, size) == 0) renamings[i].to[0] = 0;
  }
}

static void note_removed(const char* path) {
  for (int i = 0; i < unsynced_count; ++i)
    if (strcmp(unsynced[i], path) == 0) unsynced[i][0] = 0;
  for (int i = 0; i < renaming_count; ++i)
    if (is_below(path, renamings[i].to)) renamings[i].to[0] = 0;
}

// What was written keeps its name in the list; files of an exchange have been synced.
static void note_renamed(const char* from, const char* to, unsigned flags) {
  char old[PATH_MAX];
  for (int i = 0; i < unsynced_count; ++i) {
    if (!is_below(unsynced[i], from)) continue;
    strcpy(old, unsynced[i]);
    if ((size_t)snprintf(unsynced[i], PATH_MAX, "%s%s", to, old + strlen(from)) >= PATH_MAX)
      unsynced[i][0] = 0;
  }
  if (renaming_count == kMaxNames) return;
  struct Renaming* one = &renamings[renaming_count++];
  strcpy(one->from, from);
  strcpy(one->to, to);
  one->flags = flags;
}

static int open_at(const char* name, int base, const char* file, int flags, mode_t mode) {
  char path[PATH_MAX];
  const int changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (changes) whole_path(base, file, path);
  if (!changes || !is_below(path, folder)) return (int)syscall(SYS_openat, base, file, flags, mode);
  if (begin(name, path, kTakesSpace) == kFail) return (int)full();
  return (int)end(syscall(SYS_openat, base, file, flags, mode));
}

#define MODE_OF(flags, last)               \
  mode_t mode = 0;                         \
  if (((flags) & (O_CREAT | O_TMPFILE))) { \
    va_list arguments;                     \
    va_start(arguments, last);             \
    mode = va_arg(arguments, mode_t);      \
    va_end(arguments);                     \
  }

int open(const char* file, int flags, ...) {
  MODE_OF(flags, flags)
  return open_at("open", AT_FDCWD, file, flags, mode);
}
int open64(const char* file, int flags, ...) {
  MODE_OF(flags, flags)
  return open_at("open", AT_FDCWD, file, flags, mode);
}
int openat(int base, const char* file, int flags, ...) {
  MODE_OF(flags, flags)
  return open_at("openat", base, file, flags, mode);
}
int openat64(int base, const char* file, int flags, ...) {
  MODE_OF(flags, flags)
  return open_at("openat", base, file, flags, mode);
}
int creat(const char* file, mode_t mode) {
  return open_at("creat", AT_FDCWD, file, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  char path[PATH_MAX];
  path_of(fd, path);
  if (!is_below(path, folder)) return syscall(SYS_write, fd, bytes, size);
  const enum Turn turn = begin("write", path, kTakesSpace);
  if (turn == kFail) return full();
  note_written(path);
  return end(syscall(SYS_write, fd, bytes, turn == kDoHalf ? size / 2 : size));
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  char path[PATH_MAX];
  path_of(fd, path);
  if (!is_below(path, folder)) return syscall(SYS_pwrite64, fd, bytes, size, offset);
  const enum Turn turn = begin("pwrite", path, kTakesSpace);
  if (turn == kFail) return full();
  note_written(path);
  return end(syscall(SYS_pwrite64, fd, bytes, turn == kDoHalf ? size / 2 : size, offset));
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return pwrite(fd, bytes, size, offset);
}
// Half of the buffers.
ssize_t writev(int fd, const struct iovec* buffers, int size) {
  char path[PATH_MAX];
  path_of(fd, path);
  if (!is_below(path, folder)) return syscall(SYS_writev, fd, buffers, size);
  const enum Turn turn = begin("writev", path, kTakesSpace);
  if (turn == kFail) return full();
  note_written(path);
  return end(syscall(SYS_writev, fd, buffers, turn == kDoHalf ? size / 2 : size));
}

static int truncated(const char* name, int fd, off_t size) {
  char path[PATH_MAX];
  path_of(fd, path);
  if (!is_below(path, folder)) return (int)syscall(SYS_ftruncate, fd, size);
  if (begin(name, path, kTakesNone) == kFail) return (int)full();
  return (int)end(syscall(SYS_ftruncate, fd, size));
}
int ftruncate(int fd, off_t size) { return truncated("ftruncate", fd, size); }
int ftruncate64(int fd, off64_t size) { return truncated("ftruncate", fd, size); }

static int synced(const char* name, long call, int fd) {
  char path[PATH_MAX];
  path_of(fd, path);
  if (!is_below(path, folder)) return (int)syscall(call, fd);
  if (begin(name, path, kTakesNone) == kFail) return (int)full();
  const long result = syscall(call, fd);
  if (result == 0) note_synced(path);
  return (int)end(result);
}
int fsync(int fd) { return synced("fsync", SYS_fsync, fd); }
int fdatasync(int fd) { return synced("fdatasync", SYS_fdatasync, fd); }

int renameat2(int base, const char* from, int target, const char* to, unsigned flags) {
  char old[PATH_MAX], path[PATH_MAX];
  whole_path(base, from, old);
  whole_path(target, to, path);
  if (!is_below(old, folder) && !is_below(path, folder))
    return (int)syscall(SYS_renameat2, base, from, target, to, flags);
  if (begin("rename", path, kTakesNone) == kFail) return (int)full();
  const long result = syscall(SYS_renameat2, base, from, target, to, flags);
  if (result == 0) note_renamed(old, path, flags);
  return (int)end(result);
}
int renameat(int base, const char* from, int target, const char* to) {
  return renameat2(base, from, target, to, 0);
}
int rename(const char* from, const char* to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int mkdirat(int base, const char* file, mode_t mode) {
  char path[PATH_MAX];
  whole_path(base, file, path);
  if (!is_below(path, folder)) return (int)syscall(SYS_mkdirat, base, file, mode);
  if (begin("mkdir", path, kTakesSpace) == kFail) return (int)full();
  return (int)end(syscall(SYS_mkdirat, base, file, mode));
}
int mkdir(const char* file, mode_t mode) { return mkdirat(AT_FDCWD, file, mode); }

enum Removal { kFile = 0, kFolder = AT_REMOVEDIR, kEither = -1 };

static long raw_remove(int base, const char* file, int flags) {
  const long result = syscall(SYS_unlinkat, base, file, flags == kEither ? kFile : flags);
  if (result == 0 || flags != kEither || errno != EISDIR) return result;
  return syscall(SYS_unlinkat, base, file, kFolder);
}

static int removed(const char* name, int base, const char* file, int flags) {
  char path[PATH_MAX];
  whole_path(base, file, path);
  if (!is_below(path, folder)) return (int)raw_remove(base, file, flags);
  if (begin(name, path, kTakesNone) == kFail) return (int)full();
  const long result = raw_remove(base, file, flags);
  if (result == 0) note_removed(path);
  return (int)end(result);
}
int unlinkat(int base, const char* file, int flags) {
  return removed("unlinkat", base, file, flags);
}
int unlink(const char* file) { return removed("unlink", AT_FDCWD, file, kFile); }
int rmdir(const char* file) { return removed("rmdir", AT_FDCWD, file, kFolder); }
int remove(const char* file) { return removed("remove", AT_FDCWD, file, kEither); }
