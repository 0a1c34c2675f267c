package tool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns where a program is: in the search path, in bin/tools of a directory above this
// one, or in tools beside this program.
func Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	var near []string
	if self, err := os.Executable(); err == nil {
		near = append(near, filepath.Join(filepath.Dir(self), "tools", name))
	}
	if dir, err := os.Getwd(); err == nil {
		for ; ; dir = filepath.Dir(dir) {
			near = append(near, filepath.Join(dir, "bin", "tools", name))
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	for _, path := range near {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("not installed: %s, nor in a bin/tools above this directory", name)
}
