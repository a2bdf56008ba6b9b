/*
 * A disk that loses power. Preloaded into a process, it keeps beside the database (FORGETFUL_FILE) a second copy in
 * the folder FORGETFUL_DURABLE: what a disk would still hold if the power went off now. A write reaches that copy
 * when its file is flushed, a file's name when its folder is; FORGETFUL_KEEP_PERCENT of the writes reach it
 * unasked and at once, since real disks write in any order. Kill the process at any time and look at the copy.
 * The shared-memory index (-shm) is left out: it never outlives a power cut.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct range {
  off64_t from, to;
  struct range *next;
};

/* The database, its log and its rollback journal. */
static struct file {
  const char *suffix;
  int linked;
  struct range *unflushed;
} files[] = {{"", 0, NULL}, {"-wal", 0, NULL}, {"-journal", 0, NULL}};
#define FILES (sizeof files / sizeof files[0])

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char database[PATH_MAX], folder[PATH_MAX], name[PATH_MAX], durable[PATH_MAX];
static unsigned keep_percent;
static unsigned long long chance = 1;

static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fsync)(int), (*real_fdatasync)(int);

__attribute__((constructor)) static void set_up(void) {
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_write = dlsym(RTLD_NEXT, "write");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  const char *file = getenv("FORGETFUL_FILE"), *to = getenv("FORGETFUL_DURABLE");
  const char *keep = getenv("FORGETFUL_KEEP_PERCENT"), *seed = getenv("FORGETFUL_SEED");
  if (file == NULL || to == NULL) return;
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", file);
  snprintf(name, sizeof name, "%s", basename(copy));
  snprintf(copy, sizeof copy, "%s", file);
  /* The kernel names open files without links in their path. */
  if (realpath(dirname(copy), folder) == NULL) return;
  snprintf(database, sizeof database, "%.2000s/%.1000s", folder, name);
  snprintf(durable, sizeof durable, "%s", to);
  keep_percent = keep == NULL ? 0 : (unsigned)atoi(keep);
  chance = seed == NULL ? 1 : strtoull(seed, NULL, 10) * 2 + 1;
}

static int path_of(int fd, char *path) {
  char link[64];
  if (database[0] == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return 1;
}

static struct file *watched(int fd) {
  char path[PATH_MAX];
  size_t length = strlen(database);
  if (!path_of(fd, path) || strncmp(path, database, length) != 0) return NULL;
  for (size_t i = 0; i < FILES; i++)
    if (strcmp(path + length, files[i].suffix) == 0) return &files[i];
  return NULL;
}

static int is_folder(int fd) {
  char path[PATH_MAX];
  return path_of(fd, path) && strcmp(path, folder) == 0;
}

/* Under a name of its own as long as the folder was not flushed: a power cut would leave nobody a way to it. */
static void durable_path(const struct file *file, int linked, char *path) {
  snprintf(path, PATH_MAX, "%.2000s/%.1000s%s%s", durable, name, file->suffix, linked ? "" : ".nameless");
}

static int open_durable(const struct file *file) {
  char path[PATH_MAX];
  durable_path(file, file->linked, path);
  return open(path, O_RDWR | O_CREAT, 0600);
}

static void copy_range(int fd, int to, off64_t from, off64_t end) {
  char bytes[65536];
  while (from < end) {
    size_t most = (size_t)(end - from) < sizeof bytes ? (size_t)(end - from) : sizeof bytes;
    ssize_t got = pread64(fd, bytes, most, from);
    if (got <= 0) return;
    real_pwrite(to, bytes, (size_t)got, from);
    from += got;
  }
}

static int kept_by_chance(void) {
  chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
  return (chance >> 33) % 100 < keep_percent;
}

static void note_write(int fd, struct file *file, off64_t from, ssize_t length) {
  if (kept_by_chance()) {
    int to = open_durable(file);
    copy_range(fd, to, from, from + length);
    close(to);
  }
  struct range *range = malloc(sizeof *range);
  *range = (struct range){from, from + length, file->unflushed};
  file->unflushed = range;
}

static void note_flush(int fd) {
  struct file *file = watched(fd);
  if (file != NULL) {
    struct stat64 status;
    int to = open_durable(file);
    while (file->unflushed != NULL) {
      struct range *range = file->unflushed;
      copy_range(fd, to, range->from, range->to);
      file->unflushed = range->next;
      free(range);
    }
    if (fstat64(fd, &status) == 0 && ftruncate64(to, status.st_size) != 0) abort();
    close(to);
  } else if (is_folder(fd)) {
    for (size_t i = 0; i < FILES; i++) {
      char nameless[PATH_MAX], named[PATH_MAX], original[PATH_MAX];
      durable_path(&files[i], 0, nameless);
      durable_path(&files[i], 1, named);
      snprintf(original, sizeof original, "%.4000s%s", database, files[i].suffix);
      int exists = access(original, F_OK) == 0;
      if (exists && !files[i].linked) {
        close(open_durable(&files[i]));
        rename(nameless, named);
      } else if (!exists) {
        unlink(named);
      }
      files[i].linked = exists;
    }
  }
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t from) {
  pthread_mutex_lock(&lock);
  ssize_t done = real_pwrite(fd, bytes, length, from);
  struct file *file = done > 0 ? watched(fd) : NULL;
  if (file != NULL) note_write(fd, file, from, done);
  pthread_mutex_unlock(&lock);
  return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t from) {
  return pwrite64(fd, bytes, length, from);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  struct file *file = watched(fd);
  if (file == NULL) return real_write(fd, bytes, length);
  pthread_mutex_lock(&lock);
  off64_t from = lseek64(fd, 0, SEEK_CUR);
  ssize_t done = real_write(fd, bytes, length);
  if (done > 0) note_write(fd, file, from, done);
  pthread_mutex_unlock(&lock);
  return done;
}

static int flush(int fd, int (*real)(int)) {
  int result = real(fd);
  if (result == 0) {
    pthread_mutex_lock(&lock);
    note_flush(fd);
    pthread_mutex_unlock(&lock);
  }
  return result;
}

int fsync(int fd) { return flush(fd, real_fsync); }
int fdatasync(int fd) { return flush(fd, real_fdatasync); }
