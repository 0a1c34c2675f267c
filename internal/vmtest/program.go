package vmtest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// HostProgram is a program of this machine with the libraries that it needs,
// for a guest whose initial file system has none. It is found in the guest's
// PATH under its name.
func HostProgram(ctx context.Context, name string) ([]File, error) {
	source, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	out, err := command(ctx, "", "ldd", source)
	if err != nil {
		return nil, err
	}
	files := []File{Program("/usr/sbin/"+name, source)}
	for line := range strings.Lines(out) {
		// "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f...)", or the
		// loader: "/lib64/ld-linux-x86-64.so.2 (0x7f...)".
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("%s: %s", source, strings.TrimSpace(line))
		}
		for word := range strings.FieldsSeq(line) {
			if strings.HasPrefix(word, "/") && !slices.ContainsFunc(files, func(f File) bool { return f.Path == word }) {
				files = append(files, Program(word, word))
				break
			}
		}
	}
	return files, nil
}
