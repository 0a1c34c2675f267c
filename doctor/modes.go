package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Bounds of the check file-modes.
const (
	maxModeFiles = 20_000 // files and directories that it looks at, upper levels first
	maxModeNames = 5      // that it names
)

// modes are the modes and owners of a state directory.
type modes struct {
	dir   fs.FileMode
	owner uint32   // of the directory
	open  []string // files that others may read or write
	owned []owned  // what another user owns
	cut   bool     // there is more than was looked at
	err   error
}

// owned is a file or directory and whose it is.
type owned struct {
	name string
	uid  uint32
}

func checkFileModes(ctx context.Context, h Host) verdict {
	return judgeModes(h, readModes(ctx, h.Config.StateDir, h.NamesFile, h.Config.Exec.ScratchDir))
}

// readModes reads the modes and owners of a directory and of all below it but the
// paths of others, which are not for the daemon alone. It follows no links.
func readModes(ctx context.Context, dir string, others ...string) modes {
	info, err := os.Stat(dir)
	if err != nil {
		return modes{err: err}
	}
	m := modes{dir: info.Mode(), owner: ownerOf(info)}
	if m.dir.Perm()&0o077 != 0 {
		return m // what is in it does not matter then
	}
	root, seen := os.DirFS(dir), 0
	for next := []string{"."}; len(next) > 0 && !m.cut; next = next[1:] {
		entries, err := fs.ReadDir(root, next[0])
		if err != nil && next[0] == "." {
			return modes{err: err}
		}
		for _, e := range entries { // of what cannot be read there are none: whose it is was told
			if seen++; seen > maxModeFiles || ctx.Err() != nil {
				m.cut = true
				break
			}
			name := path.Join(next[0], e.Name())
			info, err := e.Info()
			if err != nil || slices.Contains(others, filepath.Join(dir, name)) || e.Name() == "lost+found" {
				continue
			}
			if uid := ownerOf(info); uid != m.owner {
				m.owned = append(m.owned, owned{name, uid})
			}
			switch {
			case info.IsDir():
				next = append(next, name)
			case info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
				m.open = append(m.open, name)
			}
		}
	}
	return m
}

func ownerOf(info fs.FileInfo) uint32 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Uid
}

// judgeModes finds what others may read or write, and what is not the daemon's own:
// its user is the owner of the directory.
func judgeModes(h Host, m modes) verdict {
	dir := h.Config.StateDir
	switch {
	case m.err != nil:
		return unseen(h, dir, m.err)
	case m.dir.Perm()&0o077 != 0:
		return failure("%s has mode %04o: others may look in", dir, m.dir.Perm()).advise("chmod 0700 %s", dir)
	case h.running() && h.uid != 0 && uint32(h.uid) != m.owner:
		return failure("%s belongs to %s, and the daemon runs as %s", dir, userName(m.owner), userName(uint32(h.uid))).
			advise("chown -Rh %s %s", userName(uint32(h.uid)), dir)
	}
	var says, todo []string
	v := good("%s is for its owner only", dir)
	if len(m.owned) > 0 {
		names, whose := make([]string, len(m.owned)), make([]string, len(m.owned))
		for i, o := range m.owned {
			names[i], whose[i] = o.name, fmt.Sprintf("%s (of %s)", o.name, userName(o.uid))
		}
		us := userName(m.owner)
		says = append(says, fmt.Sprintf("%s does not own all in %s: %s", us, dir, few(whose)))
		todo = append(todo, mend(names, "chown -h "+us, fmt.Sprintf("find . ! -user %s -exec chown -h %s {} +", us, us)))
	}
	if len(m.open) > 0 {
		says = append(says, fmt.Sprintf("others may read %s in %s", few(m.open), dir))
		todo = append(todo, mend(m.open, "chmod go=", "find . -type f -perm /077 -exec chmod go= {} +"))
	}
	if len(says) > 0 {
		hint := fmt.Sprintf("cd %s && %s", dir, strings.Join(todo, " && "))
		if len(m.open) > 0 {
			hint += "; think of who may have read a key"
		}
		v = warning("%s", strings.Join(says, "; ")).advise("%s", hint)
		if len(m.owned) > 0 && m.owner != 0 {
			v.v = failure("").v // root may use what is another's, others may not
		}
	}
	if m.cut {
		v.detail += fmt.Sprintf("; only the first %d files were looked at", maxModeFiles)
	}
	return v
}

// few are the first of names.
func few(names []string) string {
	if n := len(names) - maxModeNames; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxModeNames], ", "), n)
	}
	return strings.Join(names, ", ")
}

// mend is the command for the files that are named, or for all if not all are.
func mend(names []string, each, all string) string {
	if len(names) > maxModeNames {
		return all
	}
	for _, n := range names {
		each += " " + quoted(n)
	}
	return each
}

// quoted is a file name as a shell takes it.
func quoted(name string) string {
	special := func(r rune) bool { return r > '~' || r < '+' || strings.ContainsRune(";<>?[\\]^`{|}", r) }
	if strings.IndexFunc(name, special) < 0 && !strings.HasPrefix(name, "-") {
		return name
	}
	return "'./" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id // as of a service's own user that is not in the list
}
