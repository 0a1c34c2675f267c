package archtest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoPrograms: what a build makes is not committed: it is old from the next
// commit on, and every clone has it for ever.
func TestNoPrograms(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skip("no repository of git: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		f, err := os.Open(filepath.Join(root, name))
		if err != nil {
			continue // removed, and not committed yet
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(f, head); err == nil && (bytes.Equal(head, []byte("\x7fELF")) || bytes.Equal(head, []byte("\x00asm"))) {
			t.Errorf("%s is a compiled program", name)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
