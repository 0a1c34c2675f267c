package pressure

import "golang.org/x/sys/unix"

// diskLeft is what of the disk under a directory is left, in percent; -1: not known.
func diskLeft(dir string) float64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return -1
	}
	return min(100, 100*float64(st.Bavail)/float64(st.Blocks))
}
