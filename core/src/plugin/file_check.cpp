#include "plugin/file_check.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace minfer {
namespace {

namespace fs = std::filesystem;

std::string user_name(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry ? fmt::format("{} (uid {})", entry->pw_name, uid) : fmt::format("uid {}", uid);
}

/// True when only `owner` belongs to the group: the scheme of user private groups.
bool is_private_group(gid_t gid, uid_t owner) {
  const passwd* user = ::getpwuid(owner);
  if (!user || user->pw_gid != gid) return false;
  const std::string name = user->pw_name;
  const group* entry = ::getgrgid(gid);
  if (!entry || name != entry->gr_name) return false;
  for (char** member = entry->gr_mem; member && *member; ++member)
    if (name != *member) return false;
  return true;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device node";
  return "not a file";
}

Result<void> check_trust(const struct stat& st, const std::string& subject) {
  const mode_t mode = st.st_mode & 07777;
  if (st.st_uid != 0 && st.st_uid != ::geteuid())
    return fail(
        ErrorCode::kPlugin,
        fmt::format("{} belongs to {}; a plugin must belong to root or to the user who runs "
                    "minfer",
                    subject, user_name(st.st_uid)));
  // In a sticky directory others may add files but not replace those of their owner.
  if (S_ISDIR(st.st_mode) && (mode & S_ISVTX)) return {};
  if (mode & S_IWOTH)
    return fail(ErrorCode::kPlugin,
                fmt::format("{} is writable by everyone (mode {:04o})", subject, mode), {},
                "run chmod o-w on it");
  if ((mode & S_IWGRP) && !is_private_group(st.st_gid, st.st_uid))
    return fail(
        ErrorCode::kPlugin,
        fmt::format("{} is writable by its group, gid {} (mode {:04o})", subject, st.st_gid, mode),
        {}, "run chmod g-w on it");
  return {};
}

}  // namespace

Result<void> check_plugin_directory(const fs::path& directory) {
  struct stat st = {};
  if (::stat(directory.c_str(), &st) != 0)
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, std::strerror(errno));
  if (!S_ISDIR(st.st_mode)) return fail(ErrorCode::kPlugin, "is not a directory");
  return check_trust(st, "the directory");
}

Result<PluginFile> check_plugin_file(const fs::path& path) {
  struct stat st = {};
  if (::lstat(path.c_str(), &st) != 0)
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                errno == ENOENT ? "does not exist" : std::strerror(errno));
  std::error_code ec;
  const bool is_link = S_ISLNK(st.st_mode);
  const fs::path target = fs::canonical(path, ec);
  if (ec)
    return fail(ErrorCode::kNotFound,
                fmt::format("is a symbolic link that cannot be followed: {}", ec.message()));
  if (::stat(target.c_str(), &st) != 0) return fail(ErrorCode::kIo, std::strerror(errno));

  const std::string subject = is_link ? fmt::format("its target {}", target.string()) : "the file";
  if (!S_ISREG(st.st_mode))
    return fail(ErrorCode::kPlugin, fmt::format("{} is {}; a plugin must be a regular file",
                                                subject, kind_of(st.st_mode)));
  MINFER_TRY(check_trust(st, subject));
  if (auto directory = check_plugin_directory(target.parent_path()); !directory) {
    Error error = directory.error();
    error.what = fmt::format("{} could be replaced: {} ({})", subject, error.what,
                             target.parent_path().string());
    return tl::make_unexpected(std::move(error));
  }
  return PluginFile{target, {st.st_dev, st.st_ino}};
}

}  // namespace minfer
