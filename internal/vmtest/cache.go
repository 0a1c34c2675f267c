package vmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// CacheVariable is the environment variable that moves the cache; default is
// a directory of the user's cache.
const CacheVariable = "SKEIN_VM_CACHE"

// fetchTimeout bounds one download or one bootstrap.
const fetchTimeout = 10 * time.Minute

func cacheDir() (string, error) {
	dir := os.Getenv(CacheVariable)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
		}
		dir = filepath.Join(base, "skein-vmtest")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// cached returns the directory name in the cache, which build has filled at
// some time. Another process that builds it is waited for; what a crash left
// half-built is thrown away.
func cached(ctx context.Context, name string, build func(ctx context.Context, dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("cache of guests: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cache, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("cache of guests: %w", err)
	}
	defer lock.Close()
	if err := flock(ctx, lock); err != nil {
		return "", fmt.Errorf("wait for %s: %w", lock.Name(), err)
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil {
		return "", fmt.Errorf("remove half-built %s: %w", name, err)
	}
	if err := os.Mkdir(half, 0o755); err != nil {
		return "", fmt.Errorf("cache of guests: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := build(ctx, half); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return dir, os.Rename(half, dir)
}

// flock locks f, trying until ctx ends. Closing f unlocks it.
func flock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK { //nolint:errorlint // a bare errno
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// command runs a program in dir and returns what it printed; the error holds
// the end of its complaints.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	var out, complaints strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &complaints
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(complaints.String())
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-1000):])
	}
	return out.String(), nil
}
