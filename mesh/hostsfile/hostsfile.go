package hostsfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
)

// mode lets every program on the machine read the names.
const mode = 0o644

// head begins every names file; a file that begins otherwise is not replaced.
const head = "# Hosts of cluster "

// ErrForeign reports a file that skein did not write and so does not overwrite.
var ErrForeign = errors.New("the file exists and was not written by skein")

// format returns the members' names and addresses in the form of /etc/hosts, the
// same bytes for the same members.
func format(clusterName string, members []cluster.Member) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%q, written by skein. Changes here are lost.\n", head, clusterName)
	domain := hostLabel(clusterName) + ".skein"
	sorted := slices.SortedFunc(slices.Values(members), func(x, y cluster.Member) int {
		return strings.Compare(string(x.Node), string(y.Node))
	})
	for _, m := range sorted {
		for _, a := range []netip.Addr{m.IP4, m.IP6} {
			if a.IsValid() {
				fmt.Fprintf(&b, "%s %s %s.%s\n", a, m.Node, m.Node, domain)
			}
		}
	}
	return b.Bytes()
}

// hostLabel turns a cluster's name, which may be any text, into a label of a host
// name: whatever cannot be part of a label becomes '-'.
func hostLabel(name string) string {
	label := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name), "-")
	if label = label[:min(len(label), 63)]; label == "" {
		return "cluster"
	}
	return strings.TrimRight(label, "-")
}

// maxSize bounds what is read of a names file to see whether it changed.
const maxSize = 1 << 20

// Write makes file hold the names of the members. It does not touch a file that
// holds them already, and returns ErrForeign for one that skein did not write.
func Write(file, clusterName string, members []cluster.Member) error {
	text := format(clusterName, members)
	old, err := read(file)
	switch {
	case err != nil:
		return fmt.Errorf("names file %s: %w", file, err)
	case bytes.Equal(old, text):
		return nil
	case !own(old):
		return fmt.Errorf("names file %s: %w", file, ErrForeign)
	}
	err = durable.WriteFile(file, text, mode)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // its path is a temporary file, a different one each time
	}
	if err != nil {
		return fmt.Errorf("names file %s: %w", file, err)
	}
	return nil
}

// Foreign reports whether file exists, can be read and was not written by skein.
func Foreign(file string) bool {
	text, err := read(file)
	return err == nil && !own(text)
}

// own reports whether text is empty or was written by skein.
func own(text []byte) bool { return len(text) == 0 || bytes.HasPrefix(text, []byte(head)) }

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize))
}
