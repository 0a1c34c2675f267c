package require

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const mountsEnv = "SKEIN_TEST_OWN_MOUNTS"

// OwnMounts runs the calling test once more in a process with mounts of its
// own, where it returns true. Here it returns false: all is done. The process
// has the environment of this one and env.
func OwnMounts(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(mountsEnv) == t.Name() {
		return true
	}
	Need(t, Netns)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=30m") // it may wait for its turn
	cmd.Env = append(append(os.Environ(), env...), mountsEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// Tmpfs mounts a small file system at dir, with mount options as "size=4m". It
// goes with the process that OwnMounts made at the latest.
func Tmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("skein-test", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}
