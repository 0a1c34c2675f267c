//go:build unix

package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// socketGroup is the group that may open the socket, or pass its directory;
// empty if none may, or if it has no name.
func socketGroup(path string) string {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm()&0o070 == 0 {
			continue
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Gid == 0 {
			continue
		}
		if g, err := user.LookupGroupId(strconv.FormatUint(uint64(st.Gid), 10)); err == nil {
			return g.Name
		}
	}
	return ""
}
